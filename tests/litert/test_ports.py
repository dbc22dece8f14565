"""Inputs and outputs with the types, shapes and layouts of ONNX tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ep_nnapi.litert.convert import convert
from ep_nnapi.litert.interpreter import load
from ep_nnapi.litert.ports import Port
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, I32, Q8
from tests.litert.needs import LITERT
from tests.ort_devices.networks import Network

pytestmark = LITERT
NHWC = (0, 2, 3, 1)


def doubled(code: OperandCode, shape: tuple[int, ...], **quantization: object) -> Model:
    net = Network()
    operand = Operand(code, shape, **quantization)
    x = net.add(operand)
    return net.model([x], [net.operation(spec.ADD, [x, x, net.scalar(0)], operand)])


def computed(model: Model, port: Port, array: np.ndarray) -> np.ndarray:
    inputs, outputs = [port], [Port("y", port.dtype, port.shape, 0, port.perm)]
    found = load(convert(model, inputs, outputs)).run({port.name: array})
    return found["y"]


def test_layouts_change_at_the_edge() -> None:
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    port = Port("x:0/image", array.dtype, array.shape, 0, NHWC)
    found = computed(doubled(F32, (1, 3, 4, 2)), port, array)
    np.testing.assert_array_equal(found, 2 * array)


@pytest.mark.parametrize(("dtype", "code"), [(np.int64, I32), (np.float64, F32)])
def test_wide_numbers_are_cast(dtype: type[np.generic], code: OperandCode) -> None:
    array = np.array([[3, -4]], dtype)
    found = computed(doubled(code, (1, 2)), Port("x", array.dtype, array.shape, 0), array)
    assert found.dtype == dtype
    assert found.tolist() == [[6, -8]]


def test_int8_tensors_of_uint8_operands() -> None:
    """Zero point 128 there is 0 outside."""
    array = np.array([-100, 0, 50], np.int8)
    model = doubled(Q8, (3,), scale=0.5, zero_point=128)
    found = computed(model, Port("x", array.dtype, array.shape, 0), array)
    assert found.tolist() == [-128, 0, 100]


def test_shapes_change_at_the_edge() -> None:
    """Rank 0 is one element in NNAPI, rank 5 is flat."""
    for shape in ((), (1, 2, 1, 2, 1)):
        array = np.ones(shape, np.float32)
        model = doubled(F32, (array.size,))
        found = computed(model, Port("x", array.dtype, shape, 0), array)
        np.testing.assert_array_equal(found, 2 * array)


def test_one_tensor_in_two_layouts() -> None:
    net = Network()
    shape = (1, 2, 2, 2)
    first, second = (net.add(Operand(F32, shape)) for _ in range(2))
    y = net.operation(spec.SUB, [first, second, net.scalar(0)], Operand(F32, shape))
    array = np.arange(8, dtype=np.float32).reshape(shape)
    ports = [Port("x", array.dtype, shape, n, perm) for n, perm in ((0, None), (1, NHWC))]
    made = convert(net.model([first, second], [y]), ports, [Port("y", array.dtype, shape, 0)])
    found = load(made)
    assert found.inputs == ("x",)
    np.testing.assert_array_equal(found.run({"x": array})["y"], array - array.transpose(NHWC))


def test_two_outputs_of_one_operand() -> None:
    net = Network()
    x = net.add(Operand(F32, (2,)))
    y = net.operation(spec.NEG, [x], Operand(F32, (2,)))
    array = np.array([1, 2], np.float32)
    ports = [Port(name, array.dtype, (2,), 0) for name in ("x", "y", "z")]
    found = load(convert(net.model([x], [y]), ports[:1], ports[1:])).run({"x": array})
    assert {name: values.tolist() for name, values in found.items()} == {
        "y": [-1, -2],
        "z": [-1, -2],
    }
