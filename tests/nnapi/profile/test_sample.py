"""Sample operations become legal models of the sizes that NNAPI infers."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.nnapi.model import Data
from ep_nnapi.nnapi.profile.sample import Sample, model_of, use_of
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.nnapi.validate import required_level, validate


def first(name: str, **present: int) -> Sample:
    """The first sample whose named operands are of those ranks."""
    return next(
        s
        for s in seeds_of(BY_NAME[name])
        if all(len(s.input(n).dimensions) == rank for n, rank in present.items())
    )


def test_outputs_are_inferred():
    use, level = use_of(first("MEAN", input=4).with_values(axes=np.array([1, 2], np.int32)))
    assert use.outputs[0].dimensions == (4, 1, 1, 4)
    assert level == 2


@pytest.mark.parametrize(("axis", "legal"), [(3, True), (4, False), (-4, True), (-5, False)])
def test_an_illegal_sample_is_none(axis: int, legal: bool):
    changed = first("MEAN", input=4).with_values(axes=np.array([axis], np.int32))
    assert (use_of(changed) is not None) is legal


def test_one_model_of_several_operations():
    uses = [use_of(first(name))[0] for name in ("ADD", "CONV_2D", "EXP")]
    model = model_of(uses)
    validate(model, 8)
    assert [o.spec.name for o in model.operations] == ["ADD", "CONV_2D", "EXP"]
    assert required_level(model) == max(use_of(first(n))[1] for n in ("ADD", "CONV_2D", "EXP"))
    assert all(model.operands[i].value is None for i in model.inputs)


def test_other_sizes_and_unknown_outputs():
    sample = first("EXP", input=2)
    assert use_of(sample.with_sizes(input=(3, 5)))[0].outputs[0].dimensions == (3, 5)
    use, _ = use_of(sample.with_sizes(input=(0, 5)))
    assert use.outputs[0].dimensions == (0, 5)


def test_weights_are_constants():
    inputs = {n: o[0].value for n, o in first("CONV_2D").inputs.items()}
    assert inputs["input"] is None
    assert isinstance(inputs["filter"], Data)
    assert isinstance(inputs["bias"], Data)
