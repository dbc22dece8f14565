"""Conversions that NNAPI's rules for quantized operands need; QDQ groups lowered in floats."""

from collections.abc import Iterator

import numpy as np
import pytest

from ep_nnapi.capability.requantize import insert_requantization, lower_in_floats
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.arguments import value_of
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason, Reject

Q, OTHER = Quantization((0.02,), (100,)), Quantization((0.03,), (90,))
LOGISTIC = Quantization((1 / 256,), (0,))


def value(name: str, quantization: Quantization = Q, dtype: DType = DType.UINT8) -> Value:
    return Value(name, dtype, (1, 4), quantization)


def reshape(x: Value, y: Value) -> Call:
    return apply(spec.RESHAPE, x, shape=Constant.of(np.array([1, 4], np.int32)), out=y)


def steps(*calls: Call, level: int = 4) -> list[tuple[str, Quantization | None]]:
    """The name of each operation, and the quantization of its result."""
    found = insert_requantization(calls, level)
    return [(c.spec.name, v.quantization) for c in found if (v := value_of(c.outputs[0]))]


def test_equal_parameters_need_no_conversion() -> None:
    assert steps(reshape(value("x"), value("y"))) == [("RESHAPE", Q)]


def test_a_moved_tensor_is_requantized_after_the_operation() -> None:
    assert steps(reshape(value("x"), value("y", OTHER))) == [("RESHAPE", Q), ("ADD", OTHER)]


def test_a_clamped_tensor_is_requantized_before_the_operation() -> None:
    """The limits of a clamp are in steps of the output."""
    expected = [("ADD", OTHER), ("RELU6", OTHER)]
    assert steps(apply(spec.RELU6, value("x"), out=value("y", OTHER))) == expected


@pytest.mark.parametrize(("level", "converted"), [(2, True), (3, False)])
def test_concatenation_below_level_3_needs_equal_parameters(level: int, converted: bool) -> None:
    call = apply(
        spec.CONCATENATION,
        inputs=(value("a"), value("b", OTHER)),
        axis=0,
        out=Value("y", DType.UINT8, (2, 4), Q),
    )
    expected = [("ADD", Q), ("CONCATENATION", Q)] if converted else [("CONCATENATION", Q)]
    assert steps(call, level=level) == expected


def test_a_fixed_output_is_requantized_up_to_a_factor_of_two() -> None:
    """A result in half the step of the fixed one is off by at most one; finer is rejected."""
    half, finer = Quantization((1 / 512,), (0,)), Quantization((1 / 513,), (0,))
    x = value("x")
    assert steps(apply(spec.LOGISTIC, x, out=value("y", LOGISTIC))) == [("LOGISTIC", LOGISTIC)]
    expected = [("LOGISTIC", LOGISTIC), ("ADD", half)]
    assert steps(apply(spec.LOGISTIC, x, out=value("y", half))) == expected
    with pytest.raises(Reject, match="too coarse for y") as rejected:
        steps(apply(spec.LOGISTIC, x, out=value("y", finer)))
    assert rejected.value.reason is Reason.QUANTIZATION


def test_only_one_operation_of_a_node_may_round() -> None:
    middle = value("m", LOGISTIC)
    first = apply(spec.LOGISTIC, value("x"), out=middle)
    assert len(steps(first, reshape(middle, value("y", LOGISTIC)))) == 2
    with pytest.raises(Reject, match="several operations, each of which rounds"):
        steps(first, apply(spec.LOGISTIC, middle, out=value("y", LOGISTIC)))


@pytest.mark.parametrize(("level", "dtype", "zero"), [(4, DType.INT8, -28), (3, DType.UINT8, 100)])
def test_signed_tensors_are_unsigned_below_level_4(level: int, dtype: DType, zero: int) -> None:
    signed = Quantization((0.02,), (-28,))
    x, y = (value(name, signed, DType.INT8) for name in "xy")
    (call,) = insert_requantization([reshape(x, y)], level)
    out = value_of(call.outputs[0])
    assert out is not None
    assert (out.dtype, out.quantization) == (dtype, Quantization((0.02,), (zero,)))


def test_floats_are_unchanged() -> None:
    x, y = (Value(name, DType.FLOAT, (1, 4)) for name in "xy")
    call = reshape(x, y)
    assert list(insert_requantization([call], 1)) == [call]


HALF = Quantization((0.5,), (3,))
X, Y = (Value(name, DType.UINT8, (2,), HALF) for name in "xy")
WEIGHTS = Value("w", DType.UINT8, (2,), HALF, Constant.of(np.array([3, 7], np.uint8)))


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
