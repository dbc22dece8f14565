"""The view of an operation: forms of quantized operands, layouts of images."""

import numpy as np
import pytest

from ep_nnapi.litert.flat_graph import FlatGraph
from ep_nnapi.litert.lowering.convolution import SAME, VALID, padded_image, scheme
from ep_nnapi.litert.operation import FlatOp, TensorScope, parameters, stored
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.host.kernel import named_operations
from ep_nnapi.nnapi.model import ChannelQuantization, Data, Model, Operand
from ep_nnapi.nnapi.shapes.convolution import WindowGeometry
from ep_nnapi.nnapi.spec import F32, Q8, Q8C, Q8S, Q16
from ep_nnapi.ort_devices.graph import Inexpressible
from ep_nnapi.ort_devices.to_onnx import FEATURE_LEVEL
from tests.nnapi.build import one

IMAGE = Operand(Q8, (1, 3, 4, 2), 0.5, 128)


def depth_to_space(*, nchw: bool) -> FlatOp:
    source = Operand(Q8, (1, 4, 3, 2) if nchw else (1, 3, 2, 4), 0.5, 128)
    result = Operand(Q8, (1, 1, 6, 4) if nchw else (1, 6, 4, 1), 0.5, 128)
    return flat(one(spec.DEPTH_TO_SPACE, [source, 2, nchw], [result]))


def flat(model: Model) -> FlatOp:
    """The model's one operation."""
    return FlatOp(scope_of(model), named_operations(model, FEATURE_LEVEL)[0])


def scope_of(model: Model) -> TensorScope:
    return TensorScope(FlatGraph(), model, {i: o.dimensions for i, o in enumerate(model.operands)})


def enter(op: FlatOp, *, signed: bool) -> None:
    index = op.index("input")
    tensor = op.scope.described(index, signed=signed)
    op.scope.define(index, op.graph.tensor(tensor), signed=signed)


def test_the_form_that_there_is_needs_no_conversion() -> None:
    op = depth_to_space(nchw=False)
    enter(op, signed=False)
    assert not op.signed("input")
    enter(op, signed=True)
    assert op.signed("input")


def test_images_are_nhwc() -> None:
    for nchw in (False, True):
        op = depth_to_space(nchw=nchw)
        enter(op, signed=False)
        assert op.graph.tensors[op.image("input", signed=False)].shape == (1, 3, 2, 4)
        assert op.image_output(signed=False).shape == (1, 6, 4, 1)
        op.finish_image("DEPTH_TO_SPACE", [0], signed=False, blockSize=2)
        assert op.graph.tensors[op.scope.value(op.index("output"))].shape == op.shape("output")


# Padding of windows: SAME, VALID, or an operator that pads

TAPS = (3, 3)


def pool(padding: list[int], stride: int) -> FlatOp:
    """A pool of an image of 8 x 8; padding left, right, top, bottom or a code."""
    image = Operand(F32, (1, 8, 8, 1))
    op = flat(one(spec.MAX_POOL_2D, [image, *padding, stride, stride, *TAPS, 0], [image]))
    enter(op, signed=False)
    return op


@pytest.mark.parametrize(
    ("padding", "stride", "wanted"),
    [
        ([1], 1, SAME),
        ([2], 1, VALID),
        ([0, 0, 0, 0], 2, VALID),
        ([1, 1, 1, 1], 1, SAME),
        ([0, 1, 0, 1], 2, SAME),
        ([1, 0, 1, 0], 2, None),  # the other way round
        ([1, 1, 1, 1], 2, None),
        ([0, 0, 1, 1], 1, None),
    ],
)
def test_schemes(padding: list[int], stride: int, wanted: int | None) -> None:
    op = pool(padding, stride)
    window = WindowGeometry.of(**op.scalars())
    assert scheme(op, window, TAPS) == wanted
    image, found = padded_image(op, window, TAPS, signed=False, fill=-1.0)
    sizes = op.graph.tensors[image].shape
    if wanted is None:
        left, right, top, bottom = padding
        assert (found, sizes) == (VALID, (1, 8 + top + bottom, 8 + left + right, 1))
    else:
        assert (found, sizes) == (wanted, (1, 8, 8, 1))


# Tensors of operands: uint8 and int8 forms of the same numbers


def scope(*operands: Operand) -> TensorScope:
    return scope_of(Model(operands, (), (), ()))


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
    with pytest.raises(Inexpressible, match="LiteRT has no kernels for TENSOR_QUANT16_ASYMM"):
        scope(Operand(Q16, (2,), 0.5)).described(0, signed=False)
    unknown = scope(Operand(F32, (0,)))
    unknown.dims.clear()
    with pytest.raises(Inexpressible, match="the shape of operand 0 is unknown"):
        unknown.described(0, signed=False)
