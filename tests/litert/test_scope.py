"""Tensors of operands: uint8 and int8 forms of the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.scope import TensorScope, parameters, stored
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Operand
from ep_nnapi.nnapi.spec import F16, F32, Q8, Q8C, Q8S
from ep_nnapi.ort_devices.scope import Inexpressible


def scope(*operands: Operand) -> TensorScope:
    model = Model(operands, (), (), ())
    return TensorScope(FlatGraph(), model, {i: o.dimensions for i, o in enumerate(operands)})


@pytest.mark.parametrize(("code", "zero"), [(Q8, 130), (Q8S, 2)])
def test_both_forms_are_the_same_numbers(code, zero: int) -> None:
    operand = Operand(code, (3,), 0.5, zero)
    array = np.array([0, 130, 255], np.uint8)
    if code is Q8S:
        array = (array.astype(np.int16) - 128).astype(np.int8)
    real = [
        (
            stored(array, code, signed=signed).astype(int)
            - parameters(operand, signed=signed).zero_point
        )
        for signed in (True, False)
    ]
    np.testing.assert_array_equal(*real)


def test_a_conversion_is_added_once() -> None:
    found = scope(Operand(Q8, (2,), 0.5, 128))
    found.define(0, found.graph.tensor(found.described(0, signed=False)))
    assert found.has(0, signed=False)
    assert not found.has(0, signed=True)
    other = found.value(0, signed=True)
    assert other != found.value(0)
    assert found.value(0, signed=True) == other
    assert len(found.graph.tensors) == 2


def test_constants_need_no_conversion() -> None:
    found = scope(Operand(Q8, (2,), 0.5, 128, value=Data.of(np.zeros(2, np.uint8))))
    assert found.graph.tensors[found.value(0, signed=True)].dtype == np.int8
    assert len(found.graph.tensors) == 1


def test_scales_per_channel() -> None:
    channels = ChannelQuantization(0, (0.5, 0.25))
    weights = Data.of(np.zeros((2, 1), np.int8))
    found = scope(Operand(Q8C, (2, 1), channels=channels, value=weights))
    given = found.graph.tensors[found.value(0)].parameters
    assert (given.scales, given.axis, given.zero_point) == ((0.5, 0.25), 0, 0)


def test_float32_has_one_form() -> None:
    found = scope(Operand(F32, (2,)))
    found.define(0, found.graph.tensor(found.described(0, signed=True)), signed=True)
    assert found.value(0) == found.value(0, signed=True) == found.value(0, signed=False)


def test_other_types_and_unknown_sizes_are_refused() -> None:
    with pytest.raises(Inexpressible, match="LiteRT has no kernels for TENSOR_FLOAT16"):
        scope(Operand(F16, (2,))).described(0, signed=False)
    unknown = scope(Operand(F32, (0,)))
    unknown.dims.clear()
    with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
        unknown.described(0, signed=False)
