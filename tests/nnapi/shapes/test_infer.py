"""Shape inference: what is known, what is not yet, and what cannot be."""

from __future__ import annotations

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.shapes import Pending, Tensor, infer
from tests.nnapi.shapes.operands import one, t


def test_what_is_not_asked_for_may_be_unknown():
    assert one(spec.RELU, input=t(2, None)) == (2, None)
    assert one(spec.RELU, input=Tensor(None)) is None
    assert one(spec.SOFTMAX, input=t(2, 3), beta=Pending.PENDING, axis=0) == (2, 3)
    assert one(spec.SOFTMAX, input=t(2, 3), beta=1.0, axis=Pending.PENDING) is None
    assert one(spec.RESHAPE, input=t(2, 3), shape=Tensor((1,))) is None


def test_several_outputs_are_unknown_together():
    unknown = infer(spec.SPLIT, {"input": t(4), "axis": 0, "num_splits": Pending.PENDING}, 2)
    assert unknown == (None, None)
