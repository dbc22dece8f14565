"""Groups of operations that one ONNX operator computes, and groups that look alike but differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import BOOL8, F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.device import CpuDevice
from tests.ort_devices.expressions import SHAPE, Expression, differences, operators
from tests.ort_devices.networks import Network


def biased(net: Expression, units: int, bias: int, zero: float = 0) -> int:
    """A matrix product without bias, reshaped, plus a constant."""
    rows = net.operation(
        spec.RESHAPE, [net.x, net.tensor(np.array([6, 8]), I32)], Operand(F32, (6, 8))
    )
    zeros = net.tensor(np.full(units, zero), F32)
    given = [rows, net.numbers(units, 8), zeros, net.scalar(0)]
    product = net.operation(spec.FULLY_CONNECTED, given, Operand(F32, (6, units)))
    shape = net.tensor(np.array([2, 3, units]), I32)
    wide = net.operation(spec.RESHAPE, [product, shape], Operand(F32, (2, 3, units)))
    return net.two(spec.ADD, bias, wide)


def test_a_constant_added_to_a_matrix_product_is_its_bias():
    net = Expression()
    model = net.ends(biased(net, 5, net.numbers(5)))
    assert operators(model)["Add"] == 0
    assert differences(model) == pytest.approx([0], abs=2e-6)


@pytest.mark.parametrize(
    ("shape", "zero"), [((3, 5), 0), ((5,), 0.5)], ids=["another for each row", "two biases"]
)
def test_other_constants_are_added(shape, zero):
    net = Expression()
    model = net.ends(biased(net, 5, net.numbers(*shape), zero))
    assert operators(model)["Add"] == 1
    assert differences(model) == pytest.approx([0], abs=2e-6)


def hard_sigmoid(
    shift: float = 3.0, factor: float = 1 / 6, activation: int = 3, *, divided: bool = False
) -> Expression:
    """RELU6(x + shift) / 6 of an input of 5 times the numbers; its output is the last operand."""
    net = Expression()
    six_fold = net.two(spec.ADD, net.two(spec.MUL, net.x, 5.0), shift, activation)
    net.two(spec.DIV if divided else spec.MUL, six_fold, factor)
    return net


@pytest.mark.parametrize(
    "options", [{}, {"factor": 6.0, "divided": True}, {"shift": 1.5}], ids=["sixth", "six", "shift"]
)
def test_a_hard_sigmoid_is_one_node(options):
    net = hard_sigmoid(**options)
    model = net.ends(len(net.operands) - 1)
    assert operators(model) == {"Mul": 1, "HardSigmoid": 1}
    assert differences(model) == pytest.approx([0], abs=2e-7)  # rounded once less


@pytest.mark.parametrize(
    "options",
    [{"activation": 1}, {"factor": 0.2}, {"factor": 5.0, "divided": True}],
    ids=["another activation", "another factor", "another divisor"],
)
def test_what_differs_from_a_hard_sigmoid_is_computed_step_by_step(options):
    net = hard_sigmoid(**options)
    model = net.ends(len(net.operands) - 1)
    assert "HardSigmoid" not in operators(model)
    assert differences(model) == pytest.approx([0], abs=2e-6)


def test_a_hard_sigmoid_between_convolutions_is_in_their_layout():
    net = Expression((1, 6, 5, 4))
    image = Operand(F32, (1, 6, 5, 4))
    x = net.conv(net.x, 4, image)
    gate = net.two(spec.MUL, net.two(spec.ADD, x, 3.0, 3), 1 / 6)
    model = net.ends(net.conv(gate, 4, image))
    found = operators(model)
    assert (found["HardSigmoid"], found["Transpose"]) == (1, 2)  # of the input and the output
    assert differences(model) == pytest.approx([0], abs=1e-5)  # float32 sums in another order


ROWS = 9


def gathered(at: np.ndarray, size: int = ROWS, below: int = 0) -> tuple[Model, list[np.ndarray]]:
    """Rows by index, those below zero counted from the end; the model and what it is to give."""
    net = Network()
    table = net.random.uniform(-1, 1, (ROWS, 4)).astype(np.float32)
    x = net.add(Operand(I32, at.shape))
    numbers = [net.tensor(np.array([number]), I32) for number in (below, size)]
    negative = net.operation(spec.LESS, [x, numbers[0]], Operand(spec.BOOL8, at.shape))
    moved = net.operation(spec.ADD, [x, numbers[1], net.scalar(0)], Operand(I32, at.shape))
    chosen = net.operation(spec.SELECT, [negative, moved, x], Operand(I32, at.shape))
    given = [net.tensor(table, F32), net.scalar(0), chosen]
    y = net.operation(spec.GATHER, given, Operand(F32, (*at.shape, 4)))
    return net.model([x], [y]), [table[np.where(at < below, at + size, at)]]


def test_indexes_from_the_end_are_those_of_onnx():
    at = np.array([[0, 3, ROWS - 1], [-1, -ROWS, -4]], np.int32)
    model, expected = gathered(at)
    assert operators(model) == {"Gather": 1}
    runtime = HostRuntime((CpuDevice(threads=1),))
    compiled = runtime.compile(model, runtime.devices()[0])
    np.testing.assert_array_equal(compiled.run([at]), expected)
    for wrong in (ROWS, -ROWS - 1):
        with pytest.raises(RuntimeFailure, match="out of data bounds"):
            compiled.run([np.full_like(at, wrong)])


@pytest.mark.parametrize("numbers", [{"size": ROWS - 1}, {"below": -1}], ids=str)
def test_other_choices_of_indexes_are_computed(numbers):
    at = np.array([2, 0, -3], np.int32)
    model, expected = gathered(at, **numbers)
    assert operators(model)["Where"] > 0
    runtime = HostRuntime((CpuDevice(threads=1),))
    compiled = runtime.compile(model, runtime.devices()[0])
    np.testing.assert_array_equal(compiled.run([at]), expected)


IMAGE = (2, 5, 7, 4)


def mean_of_codes(
    axes: tuple[int, ...], *, keep: bool, code: OperandCode, through_floats: bool
) -> Model:
    """The mean of a quantized image, whose quantization changes where it goes through floats."""
    zero = {Q8: 100, Q8S: -28}[code]
    net = Network()
    x = net.add(Operand(code, IMAGE, scale=0.05, zero_point=zero))
    shape = [1 if i in axes else s for i, s in enumerate(IMAGE) if keep or i not in axes]
    given = [net.tensor(np.array(axes), I32), net.scalar(int(keep))]
    if not through_floats:
        out = Operand(code, tuple(shape), scale=0.05, zero_point=zero)
        return net.model([x], [net.operation(spec.MEAN, [x, *given], out)])
    real = net.operation(spec.DEQUANTIZE, [x], Operand(F32, IMAGE))
    mean = net.operation(spec.MEAN, [real, *given], Operand(F32, tuple(shape)))
    out = Operand(code, tuple(shape), scale=0.01, zero_point=zero + 1)
    return net.model([x], [net.operation(spec.QUANTIZE, [mean], out)])


@pytest.mark.parametrize("through_floats", [False, True], ids=["codes", "floats"])
@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
@pytest.mark.parametrize("keep", [False, True], ids=["no axes", "axes"])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)], ids=["NHWC", "NCHW"])
def test_the_mean_of_a_quantized_image_is_one_node(axes, keep, code, through_floats):
    model = mean_of_codes(axes, keep=keep, code=code, through_floats=through_floats)
    assert operators(model)["QLinearGlobalAveragePool"] == 1
    assert not {"ReduceMean", "DequantizeLinear"} & operators(model).keys()
    assert max(differences(model)) <= 1


@pytest.mark.parametrize("through_floats", [False, True], ids=["codes", "floats"])
@pytest.mark.parametrize("axes", [(1,), (1, 3), (0, 1), (1, 2, 3)], ids=str)
def test_other_means_of_quantized_tensors_are_of_real_numbers(axes, through_floats):
    model = mean_of_codes(axes, keep=False, code=Q8, through_floats=through_floats)
    assert operators(model)["ReduceMean"] + operators(model)["GlobalAveragePool"] == 1
    assert max(differences(model)) <= 1


def requantized_softmax(code: OperandCode, added: float = 0, beta: float = 1.0) -> Model:
    """A softmax along the last axis plus a number, with another scale."""
    zero = {Q8: 0, Q8S: -128}[code]
    net = Network()
    x = net.add(Operand(code, (3, 12), scale=0.05, zero_point=zero + 100))
    probabilities = Operand(code, (3, 12), scale=1 / 256, zero_point=zero)
    p = net.operation(spec.SOFTMAX, [x, net.scalar(beta)], probabilities)
    constant = net.tensor(np.array([added * 256 + zero]), code, scale=1 / 256, zero_point=zero)
    out = Operand(code, (3, 12), scale=1 / 200, zero_point=zero)
    return net.model([x], [net.operation(spec.ADD, [p, constant, net.scalar(0)], out)])


@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_a_softmax_that_is_requantized_is_quantized_once(code):
    model = requantized_softmax(code)
    assert operators(model)["QLinearAdd"] == 0
    assert operators(model)["QuantizeLinear"] == 1
    assert max(differences(model)) <= 1


@pytest.mark.parametrize("change", [{"added": 0.25}, {"beta": 0.5}], ids=str)
def test_other_sums_with_a_softmax_are_added(change):
    model = requantized_softmax(Q8, **change)
    assert operators(model)["QLinearAdd"] == 1
    assert max(differences(model)) <= 1


def indicator(
    code: OperandCode, *, filled: bool, ones: Sequence[float] = (1,), zero: float = 0
) -> Model:
    """Two numbers where the inputs' first elements are greater and where not."""
    net = Expression()
    y = Operand(code, SHAPE)
    condition = net.operation(spec.GREATER, [net.x, net.numbers(1)], Operand(BOOL8, SHAPE))
    if filled:
        dims, kind = net.tensor(np.array(SHAPE), I32), int if code is I32 else float
        sides = [
            net.operation(spec.FILL, [dims, net.scalar(kind(number))], y)
            for number in (ones[0], zero)
        ]
    else:
        sides = [net.tensor(np.resize(np.array(each), SHAPE), code) for each in (ones, [zero])]
    return net.ends(net.operation(spec.SELECT, [condition, *sides], y))


@pytest.mark.parametrize("filled", [False, True], ids=["constants", "filled"])
@pytest.mark.parametrize("code", [F32, I32], ids=str)
def test_ones_and_zeros_by_a_condition_are_a_cast(code, filled):
    model = indicator(code, filled=filled)
    found = operators(model)
    assert (found["Cast"], found["Where"], found["Expand"]) == (1, 0, 0)
    assert differences(model) == [0]


OTHER = [{"filled": True, "zero": 2}, {"filled": False, "ones": (1, 3)}]


@pytest.mark.parametrize("change", OTHER, ids=str)
def test_other_numbers_by_a_condition_are_selected(change):
    model = indicator(F32, **change)
    assert operators(model)["Where"] == 1
    assert differences(model) == [0]
