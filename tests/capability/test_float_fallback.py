"""QDQ groups lowered in floats: dequantized inputs, folded constants, quantized outputs."""

from collections.abc import Iterator

import numpy as np
import pytest

from ep_nnapi.capability.float_fallback import lower_in_floats
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec

Q = Quantization((0.5,), (3,))
X, Y = (Value(name, DType.UINT8, (2,), Q) for name in "xy")
WEIGHTS = Value("w", DType.UINT8, (2,), Q, Constant.of(np.array([3, 7], np.uint8)))


def group(*inputs: Value | None, dtype: DType = DType.FLOAT) -> GraphNode:
    """An Add whose original node computes in `dtype`."""
    part = GraphNode(0, "add", "Add", "", 14, (), (Value("sum", dtype, (2,)),))
    return GraphNode(0, "add", "Add", "", 14, inputs, (Y,), parts=(part,))


def add(node: GraphNode) -> Iterator[Call]:
    a, b = (v for v in node.inputs if v is not None)
    (y,) = node.outputs
    yield apply(spec.ADD, a, b, activation=0, out=y)


def calls(node: GraphNode) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in lower_in_floats(node, add):
        found.setdefault(call.spec.name, []).append(call)
    return found


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.FLOAT16])
def test_the_operator_computes_in_the_floats_of_the_group(dtype: DType) -> None:
    found = calls(group(X, WEIGHTS, dtype=dtype))
    assert list(found) == ["DEQUANTIZE", "ADD", "QUANTIZE"]
    (add_call,) = found["ADD"]
    values = [v for v in (*add_call.inputs, *add_call.outputs) if isinstance(v, Value)]
    assert {v.dtype for v in values} == {dtype}
    assert all(v.quantization is None for v in values)
    assert found["QUANTIZE"][0].outputs == (Y,)


def test_a_constant_is_dequantized_ahead_of_time() -> None:
    """The real values are (stored - 3) / 2."""
    (call,) = calls(group(X, WEIGHTS))["ADD"]
    weights = call.inputs[1]
    assert isinstance(weights, Value)
    assert weights.constant is not None
    np.testing.assert_array_equal(weights.constant.array, np.array([0, 2], np.float32))


def test_an_input_that_is_read_twice_is_dequantized_once() -> None:
    assert len(calls(group(X, X))["DEQUANTIZE"]) == 1


def test_a_float_input_and_an_omitted_one_are_unchanged() -> None:
    plain = Value("f", DType.FLOAT, (2,))
    found = calls(group(plain, None, X))
    assert found["ADD"][0].inputs[0] == plain
    assert len(found["DEQUANTIZE"]) == 1
