"""Joined tensors of several scales, paddings and fill values that only a run has, on host-cpu."""

from dataclasses import replace

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.model import Model, Operand
from ep_nnapi.nnapi.spec import F32, I32, Q8, Q8S
from ep_nnapi.ort_devices.device import CpuDevice
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.to_onnx import obstacles
from tests.nnapi.build import one
from tests.ort_devices.expressions import operators
from tests.ort_devices.networks import Network, computed, feed

HOST_CPU = CpuDevice(threads=1)


def joined(code: OperandCode, *quantizations: tuple[float, int]) -> Model:
    """CONCATENATION of [2, 3] along axis 1; the last scale and zero point are the output's."""
    *parts, out = [Operand(code, (2, 3), scale=s, zero_point=z) for s, z in quantizations]
    return one(spec.CONCATENATION, [*parts, 1], [replace(out, dimensions=(2, 3 * len(parts)))])


@pytest.mark.parametrize(
    ("others", "operator"),
    [([(0.5, 7)], "Concat"), ([(0.5, 8)], "QLinearConcat"), ([(0.25, 7)], "QLinearConcat")],
    ids=["one scale", "two zero points", "two scales"],
)
@pytest.mark.parametrize("code", [Q8, Q8S], ids=str)
def test_images_of_several_scales_are_joined_in_one_node(code, others, operator):
    """Within a quantum of real numbers: NNAPI rounds ties away from zero, the node to even."""
    model = joined(code, (0.5, 7), *others, (0.5, 7))
    assert operators(model)[operator] == 1
    assert operators(model, Kernels())["Concat"] == 1
    arrays = feed(model)
    real = [(a.astype(int) - z) * s for a, (s, z) in zip(arrays, [(0.5, 7), *others], strict=True)]
    info = np.iinfo(code.numpy)
    wanted = np.clip(np.concatenate(real, 1) / 0.5 + 7, info.min, info.max)
    assert np.abs(run(model, *arrays) - wanted).max() <= 0.5


def padded(code: OperandCode, *dims: int) -> Model:
    """PAD of [2, 3] to those sizes; the paddings are an input."""
    x = Operand(code, (2, 3), *((0.0, 0) if code is F32 else (0.5, 7)))
    return one(spec.PAD, [x, Operand(I32, (2, 2))], [replace(x, dimensions=dims)])


def run(model: Model, *inputs: np.ndarray) -> np.ndarray:
    return computed(model, HOST_CPU, inputs)[0]


@pytest.mark.parametrize("code", [F32, Q8, Q8S], ids=str)
@pytest.mark.parametrize("pairs", [[[0, 0], [0, 0]], [[1, 0], [2, 3]], [[0, 4], [1, 0]]], ids=str)
def test_paddings_may_be_an_input(code, pairs):
    x = np.arange(6, dtype=code.numpy).reshape(2, 3)
    wanted = np.pad(x, pairs, constant_values=0 if code is F32 else 7)
    found = run(padded(code, *wanted.shape), x, np.array(pairs, np.int32))
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[1, 1], [0, 0]], "paddings give another shape than the output's"),  # [4, 3], not [2, 6]
        ([[0, 0], [4, -1]], "paddings are negative"),
    ],
)
def test_paddings_that_do_not_fit_the_output_fail(pairs, message):
    with pytest.raises(RuntimeFailure, match=message):
        run(padded(F32, 2, 6), np.zeros((2, 3), np.float32), np.array(pairs, np.int32))


def test_paddings_to_unknown_sizes_are_declined():
    assert obstacles(padded(F32, 2, 6)) == ("",)
    assert obstacles(padded(F32, 2, 0)) == ("the shape of operand 2 is unknown",)


@pytest.mark.parametrize(
    ("code", "scalar"), [(F32, OperandCode.FLOAT32), (I32, OperandCode.INT32)], ids=str
)
def test_the_value_of_fill_may_be_an_input(code, scalar):
    model = one(spec.FILL, [np.array([2, 3]), Operand(scalar)], [Operand(code, (2, 3))])
    found = run(model, np.array(5, code.numpy))
    np.testing.assert_array_equal(found, np.full((2, 3), 5, code.numpy), strict=True)


def sliced(begin: tuple[int, ...], sizes: tuple[int, ...], dims: tuple[int, ...]) -> Model:
    """SLICE of [4, 5, 6] at constant places."""
    given = Operand(F32, (4, 5, 6)), np.array(begin), np.array(sizes)
    return one(spec.SLICE, given, [Operand(F32, dims)])


@pytest.mark.parametrize(
    ("begin", "sizes", "nodes"),
    [((0, 0, 0), (4, 5, 6), {"Identity": 1}), ((0, 2, 0), (4, 3, 6), {"Slice": 1})],
    ids=["whole", "part"],
)
def test_a_block_at_constant_places_is_one_node(begin, sizes, nodes):
    model = sliced(begin, sizes, sizes)
    assert operators(model) == nodes
    (x,) = feed(model)
    wanted = x[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))]
    np.testing.assert_array_equal(run(model, x), wanted, strict=True)


def test_channels_are_transposed_only_where_they_are_read_last():
    """NCHW to NHWC and back is nothing; what is read as NHWC is transposed."""
    net, image = Network(), Operand(F32, (1, 2, 3, 4))
    x, perms = net.add(image), (np.array([0, 2, 3, 1]), np.array([0, 3, 1, 2]))
    last = net.operation(spec.TRANSPOSE, [x, perms[0]], Operand(F32, (1, 3, 4, 2)))
    first = net.operation(spec.TRANSPOSE, [last, perms[1]], image)
    found = net.operation(spec.RELU, [first], image)
    assert operators(net.model(found)) == {"Relu": 1}
    model = net.model(last, found)
    assert operators(model) == {"Relu": 1, "Transpose": 1}
    (given,) = feed(model)
    np.testing.assert_array_equal(run(model, given), given.transpose(0, 2, 3, 1), strict=True)
