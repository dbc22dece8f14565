"""Activations are folded into the operation before them, where that changes nothing else."""

import numpy as np
import pytest

from ep_nnapi.graph.value import Constant, DType, Quantization, Value
from ep_nnapi.lowering.arguments import View, value_of
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.lowering.fusion import fuse_activations, fuse_biases
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import FuseCode
from ep_nnapi.nnapi.signature import OperationSpec
from tests.calls import Calls, operations, run


def names(calls: list[Call]) -> list[str]:
    return [c.spec.name for c in calls]


def activation_of(call: Call) -> FuseCode:
    return FuseCode(call.named()["activation"])


@pytest.mark.parametrize(
    ("row", "code"),
    [(spec.RELU, FuseCode.RELU), (spec.RELU1, FuseCode.RELU1), (spec.RELU6, FuseCode.RELU6)],
)
def test_each_activation_is_folded(row: OperationSpec, code: FuseCode):
    g = Calls()
    x = g.add(g.input(2, 3), g.input(2, 3))
    y = g.call(row, x.shape, x)
    (fused,) = fuse_activations(g.calls, {y.name}, 8)
    assert fused.spec is spec.ADD
    assert activation_of(fused) is code
    assert fused.writes == (y,)
    assert fused.origin == (f"ADD {x.name}", f"{row.name} {y.name}")


def test_the_output_keeps_the_layout_of_the_operation_before():
    g = Calls()
    y = g.relu(g.conv(g.input(1, 3, 4, 4), 2))
    (fused,) = fuse_activations(g.calls, {y.name}, 8)
    assert isinstance(fused.outputs[0], View)
    assert fused.outputs[0].value == y


def test_no_other_operation_is_an_activation():
    g = Calls()
    y = g.tanh(g.add(g.input(2, 3), g.input(2, 3)))
    assert names(fuse_activations(g.calls, {y.name}, 8)) == ["ADD", "TANH"]


def test_an_operation_without_that_operand_takes_none():
    g = Calls()
    y = g.relu(g.tanh(g.input(2, 3)))
    assert names(fuse_activations(g.calls, {y.name}, 8)) == ["TANH", "RELU"]


def test_an_operation_takes_one_activation():
    g = Calls()
    x = g.relu(g.add(g.input(2, 3), g.input(2, 3)))
    y = g.call(spec.RELU6, x.shape, x)
    assert names(fuse_activations(g.calls, {y.name}, 8)) == ["ADD", "RELU6"]


def test_not_when_another_operation_reads_the_input():
    g = Calls()
    x = g.add(g.input(2, 3), g.input(2, 3))
    outputs = {g.relu(x).name, g.tanh(x).name}
    assert names(fuse_activations(g.calls, outputs, 8)) == ["ADD", "RELU", "TANH"]


def test_not_when_two_activations_read_the_input():
    g = Calls()
    x = g.add(g.input(2, 3), g.input(2, 3))
    outputs = {g.relu(x).name, g.relu(x).name}
    assert names(fuse_activations(g.calls, outputs, 8)) == ["ADD", "RELU", "RELU"]


def test_not_when_the_input_leaves_the_cluster():
    g = Calls()
    x = g.add(g.input(2, 3), g.input(2, 3))
    y = g.relu(x)
    assert names(fuse_activations(g.calls, {x.name, y.name}, 8)) == ["ADD", "RELU"]


def test_an_activation_of_what_enters_stays():
    """The operation that computes it is in another cluster, or on the CPU."""
    g = Calls()
    y = g.relu(g.input(2, 3))
    assert names(fuse_activations(g.calls, {y.name}, 8)) == ["RELU"]


def test_not_when_the_activation_changes_the_quantization():
    """A fused activation writes with the scale of the operation, so both must be the same."""
    coarse, fine = Quantization((0.5,), (3,)), Quantization((0.25,), (0,))
    made = [
        names(fuse_activations(quantized(spec.ADD, coarse, q), {"y"}, 8)) for q in (coarse, fine)
    ]
    assert made == [["ADD"], ["ADD", "RELU"]]


def quantized(row: OperationSpec, before: Quantization, after: Quantization) -> list[Call]:
    """RELU of an operation on 8-bit numbers, with the quantization of both results."""
    x, y = (Value(n, DType.UINT8, (2, 3), q) for n, q in (("x", before), ("y", after)))
    a = Value("a", DType.UINT8, (2, 3), before)
    return [apply(row, a, a, out=x), apply(spec.RELU, x, out=y)]


def test_8_bit_sums_of_level_1_and_2_take_none():
    """Android 8.1 and 9 leave it out."""
    for row, level, found in (
        (spec.ADD, 2, ["ADD", "RELU"]),
        (spec.ADD, 3, ["ADD"]),
        (spec.MUL, 2, ["MUL"]),
    ):
        calls = quantized(row, Quantization((0.5,), (3,)), Quantization((0.5,), (3,)))
        assert names(fuse_activations(calls, {"y"}, level)) == found
    g = Calls()
    y = g.relu(g.add(g.input(2, 3), g.input(2, 3)))
    assert names(fuse_activations(g.calls, {y.name}, 1)) == ["ADD"]


def test_chains_are_folded_pairwise():
    g = Calls()
    x = g.relu(g.add(g.input(2, 3), g.input(2, 3)))
    y = g.relu(g.add(x, x))
    fused = fuse_activations(g.calls, {y.name}, 8)
    assert names(fused) == ["ADD", "ADD"]
    assert [activation_of(c) for c in fused] == [FuseCode.RELU] * 2
    assert fused[1].reads == (x, x)


def test_folding_does_not_change_the_numbers():
    g = Calls()
    x = g.relu(g.conv(g.input(1, 2, 5, 5), 3))
    y = g.relu(g.add(g.conv(x, 3), x))
    low = g.lower(x, y)
    assert operations(low) == ["CONV_2D", "CONV_2D", "ADD"]
    results = run(low, g.feeds())
    assert all((results[v.name] >= 0).all() and results[v.name].any() for v in (x, y))
    assert np.any(results[y.name] == 0)


def test_values_of_operands():
    x = Value("x", DType.FLOAT, (1, 2, 3, 4))
    assert value_of(x) is x
    assert value_of(View(x, (0, 2, 3, 1))) is x
    assert value_of(1) is None
    assert value_of(None) is None


def product(g: Calls, *, bias: float = 0, units: int = 4) -> Value:
    constant = Constant.of(np.full(units, bias, np.float32))
    named = {"weights": g.weights(units, 3), "bias": constant}
    return g.call(spec.FULLY_CONNECTED, (2, units), g.input(2, 3), **named)


@pytest.mark.parametrize("relu", [False, True])
def test_a_constant_row_is_the_bias_of_the_product_before(relu):
    g = Calls()
    row = g.weights(4)
    y = g.add(row, product(g))
    y = g.relu(y) if relu else y
    (fused,) = fuse_activations(fuse_biases(g.calls, {y.name}), {y.name}, 8)
    assert fused.named()["bias"] == row
    assert (fused.writes, activation_of(fused)) == ((y,), FuseCode.RELU if relu else FuseCode.NONE)
    assert len(fused.origin) == 2 + relu


@pytest.mark.parametrize("case", ["two biases", "rows", "computed", "read twice", "leaves"])
def test_other_sums_stay(case):
    g = Calls()
    p = product(g, bias=case == "two biases")
    y = g.add(p, {"rows": g.weights(2, 4), "computed": g.input(4)}.get(case, g.weights(4)))
    if case == "read twice":
        y = g.add(y, p)
    kept = {y.name, *([p.name] if case == "leaves" else [])}
    assert fuse_biases(g.calls, kept) == g.calls
