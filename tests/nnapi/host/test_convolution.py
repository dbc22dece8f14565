"""Convolutions against their definition, window by window, in float64."""

import numpy as np
import pytest

from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.codes import PaddingCode
from ep_nnapi.nnapi.model import Operand
from tests.nnapi.host import oracle

SEED = 20260802
GEOMETRIES = {
    "1x1": {"taps": (1, 1)},
    "3x3 same": {"taps": (3, 3), "same": True},
    "3x3 same stride 2": {"taps": (3, 3), "same": True, "strides": (2, 2)},
    "even 4x2 same": {"taps": (4, 2), "same": True},
    "explicit, uneven": {"taps": (3, 2), "pads": (0, 1, 2, 0), "strides": (2, 1)},
    "1x1 stride 2": {"taps": (1, 1), "strides": (2, 2)},
    "dilated": {"taps": (2, 3), "dilations": (2, 3), "same": True},
    "wide pads": {"taps": (3, 3), "pads": (2, 2, 2, 2), "strides": (3, 3)},
    "whole image": {"taps": (7, 8)},
}
IMAGE = (2, 7, 8, 4)


class Geometry:
    """A window in this file's own terms; pads: left, right, top, bottom."""

    def __init__(self, taps, *, same=False, pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1)):
        self.taps, self.same, self.given = taps, same, pads
        self.strides, self.dilations = strides, dilations

    def operands(self, nchw=False, *, layout=True):
        found = {"padding": int(PaddingCode.SAME)}
        if not self.same:
            names = ("left", "right", "top", "bottom")
            found = {f"padding_{n}": p for n, p in zip(names, self.given, strict=True)}
        found |= {"stride_width": self.strides[1], "stride_height": self.strides[0]}
        if layout:
            found |= {"layout": nchw}
        if self.dilations != (1, 1):
            found |= {"dilation_width": self.dilations[1], "dilation_height": self.dilations[0]}
        return found

    def padded(self, image):
        """The image with zeros around it, and the output's size."""
        left, right, top, bottom = self.given
        if self.same:
            (top, bottom), (left, right) = (self._same(image.shape[1 + i], i) for i in (0, 1))
        padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)))
        reach = [d * (t - 1) + 1 for d, t in zip(self.dilations, self.taps, strict=True)]
        extent = [(padded.shape[1 + i] - reach[i]) // self.strides[i] + 1 for i in (0, 1)]
        return padded, extent

    def _same(self, size, axis):
        stride = self.strides[axis]
        positions = (size + stride - 1) // stride
        reach = self.dilations[axis] * (self.taps[axis] - 1) + 1
        total = max(0, (positions - 1) * stride + reach - size)
        return total // 2, total - total // 2

    def windows(self, image):
        """For each output pixel, what it sees: [N, taps high, taps wide, C]."""
        padded, (rows, columns) = self.padded(image)
        (high, wide), (down, across) = self.taps, self.strides
        for y in range(rows):
            for x in range(columns):
                at = padded[:, y * down :, x * across :]
                seen = at[:, :: self.dilations[0], :: self.dilations[1]]
                yield (y, x), seen[:, :high, :wide]

    def empty(self, image, channels):
        _, (rows, columns) = self.padded(image)
        return np.zeros((image.shape[0], rows, columns, channels))


def convolved(geometry, image, weights, bias, groups=1):
    """weights [O, kH, kW, C / groups]."""
    out = geometry.empty(image, len(weights))
    for (y, x), seen in geometry.windows(image):
        for o, taps in enumerate(weights):
            depth = taps.shape[2]
            first = o // (len(weights) // groups) * depth
            out[:, y, x, o] = (seen[..., first : first + depth] * taps).sum(axis=(1, 2, 3))
    return out + bias


def depthwise(geometry, image, weights, bias, multiplier):
    """weights [1, kH, kW, C * multiplier]."""
    out = geometry.empty(image, weights.shape[3])
    for (y, x), seen in geometry.windows(image):
        out[:, y, x] = (np.repeat(seen, multiplier, axis=3) * weights).sum(axis=(1, 2))
    return out + bias


def transposed(image, weights, bias, strides, pads, size):
    """weights [O, kH, kW, C]; pads: top, left."""
    n, height, width, _ = image.shape
    o, high, wide, _ = weights.shape
    whole = np.zeros(
        (n, height * strides[0] + high + size[0], width * strides[1] + wide + size[1], o)
    )
    for y in range(height):
        for x in range(width):
            at = (slice(None), slice(y * strides[0], y * strides[0] + high))
            at += (slice(x * strides[1], x * strides[1] + wide),)
            whole[at] += np.einsum("nc,oijc->nijo", image[:, y, x], weights)
    return whole[:, pads[0] : pads[0] + size[0], pads[1] : pads[1] + size[1]] + bias


def drawn(*shape):
    return np.random.default_rng([SEED, *shape]).uniform(-1, 1, shape)


def weighted(code, image, weights, channel=None):
    """Image, filter and bias as an operation of that data type takes them."""
    source = oracle.store(image, code)
    factors = (
        oracle.store(weights, code) if channel is None else oracle.per_channel(weights, channel)
    )
    count = weights.shape[3] if channel == 3 or len(weights) == 1 else len(weights)
    bias = drawn(count)
    if not code.quantized:
        return source, factors, oracle.store(bias, code)
    channels = factors.operand.channels
    scales = channels.scales if channels else factors.operand.scale
    scales = np.broadcast_to(np.float64(scales), count) * source.operand.scale
    plain = channel is None
    numbers = np.round(bias / scales).astype(np.int32)
    return (
        source,
        factors,
        Bias(Operand(oracle.I32, (count,), float(scales[0]) if plain else 0.0), numbers, scales),
    )


class Bias(oracle.Stored):
    """A bias of integers, whose scales are the products of the others'."""

    def __init__(self, operand, array, scales):
        super().__init__(operand, array)
        object.__setattr__(self, "scales", scales)

    @property
    def real(self):
        return self.array * self.scales


def as_layout(stored, nchw):
    return oracle.Stored(
        Operand(stored.operand.type, (), stored.operand.scale, stored.operand.zero_point),
        np.ascontiguousarray(stored.array.transpose(0, 3, 1, 2)) if nchw else stored.array,
    )


def check(row, code, tensors, expected, scalars, nchw=False):
    source, factors, bias = tensors
    output = oracle.quantized(code, expected) if code.quantized else Operand(code)
    given = {"input": as_layout(source, nchw), "filter": factors, "bias": bias, **scalars}
    for constant in (False, True):
        (result,) = oracle.run(row, given, output, constant=constant)
        if nchw:
            result = result.transpose(0, 2, 3, 1)
        # float32: sums of at most 300 products below 1, each rounded
        oracle.compare(result, output, expected, 5e-6, f"{row} of {code.name}, constant={constant}")


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
def test_conv_matches(geometry, code):
    geometry = Geometry(**geometry)
    tensors = weighted(code, drawn(*IMAGE), drawn(5, *geometry.taps, 4))
    expected = convolved(geometry, *(t.real for t in tensors))
    check(spec.CONV_2D, code, tensors, expected, geometry.operands() | {"activation": 0})


@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
def test_conv_nchw_with_an_activation_matches(code):
    geometry = Geometry((3, 3), same=True, strides=(1, 2))
    tensors = weighted(code, drawn(*IMAGE), drawn(3, 3, 3, 4))
    expected = np.clip(convolved(geometry, *(t.real for t in tensors)), -1, 1)
    scalars = geometry.operands(nchw=True) | {"activation": 2}
    check(spec.CONV_2D, code, tensors, expected, scalars, nchw=True)


@pytest.mark.parametrize("code", [oracle.Q8, oracle.Q8S], ids=lambda c: c.name)
def test_conv_per_channel_matches(code):
    geometry = Geometry((3, 3), same=True)
    weights = drawn(6, 3, 3, 4) * np.geomspace(0.01, 10, 6)[:, None, None, None]
    tensors = weighted(code, drawn(*IMAGE), weights, channel=0)
    expected = convolved(geometry, *(t.real for t in tensors))
    check(spec.CONV_2D, code, tensors, expected, geometry.operands() | {"activation": 0})


def test_long_sums_of_quantized_products_stay_exact():
    """1152 products of up to 255 * 255 exceed what float32 holds exactly."""
    image, weights = np.full((1, 3, 3, 128), 1.0), np.ones((2, 3, 3, 128))
    weights[1, ..., ::2] = -1
    tensors = weighted(oracle.Q8, image, weights)
    expected = convolved(Geometry((3, 3)), *(t.real for t in tensors))
    check(
        spec.CONV_2D, oracle.Q8, tensors, expected, Geometry((3, 3)).operands() | {"activation": 0}
    )


@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
def test_grouped_conv_matches(code, groups, nchw):
    geometry = Geometry((3, 2), pads=(1, 0, 1, 1), strides=(1, 2))
    tensors = weighted(code, drawn(*IMAGE), drawn(8, 3, 2, 4 // groups))
    expected = convolved(geometry, *(t.real for t in tensors), groups)
    scalars = geometry.operands(nchw) | {"activation": 0, "num_groups": groups}
    check(spec.GROUPED_CONV_2D, code, tensors, expected, scalars, nchw)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
def test_depthwise_conv_matches(geometry, code):
    geometry = Geometry(**geometry)
    tensors = weighted(code, drawn(*IMAGE), drawn(1, *geometry.taps, 4))
    expected = depthwise(geometry, *(t.real for t in tensors), 1)
    scalars = geometry.operands() | {"activation": 0, "depth_multiplier": 1}
    check(spec.DEPTHWISE_CONV_2D, code, tensors, expected, scalars)


@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
def test_depthwise_conv_multiplies_channels(code, nchw):
    geometry = Geometry((2, 3), same=True, strides=(2, 1))
    tensors = weighted(code, drawn(*IMAGE), drawn(1, 2, 3, 12))
    expected = np.maximum(depthwise(geometry, *(t.real for t in tensors), 3), 0)
    scalars = geometry.operands(nchw) | {"activation": 1, "depth_multiplier": 3}
    check(spec.DEPTHWISE_CONV_2D, code, tensors, expected, scalars, nchw)


def test_depthwise_conv_per_channel_matches():
    geometry = Geometry((3, 3), same=True)
    tensors = weighted(oracle.Q8S, drawn(*IMAGE), drawn(1, 3, 3, 4), channel=3)
    expected = depthwise(geometry, *(t.real for t in tensors), 1)
    scalars = geometry.operands() | {"activation": 0, "depth_multiplier": 1}
    check(spec.DEPTHWISE_CONV_2D, oracle.Q8S, tensors, expected, scalars)


@pytest.mark.parametrize("code", oracle.DATA, ids=lambda c: c.name)
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("nchw", [False, True], ids=["nhwc", "nchw"])
def test_transposed_conv_matches(code, strides, nchw):
    """Explicit padding of 1 on top and left, none below and right."""
    tensors = weighted(code, drawn(2, 3, 4, 3), drawn(2, 3, 2, 3))
    size = (2 * strides[0] + 3 - 1, 3 * strides[1] + 2 - 1)
    expected = transposed(*(t.real for t in tensors), strides, (1, 1), size)
    scalars = Geometry((3, 2), pads=(1, 0, 1, 0), strides=strides).operands(nchw)
    check(spec.TRANSPOSE_CONV_2D, code, tensors, expected, scalars | {"activation": 0}, nchw)


@pytest.mark.parametrize("size", [(5, 7), (6, 8)], ids=str)
def test_transposed_conv_fills_the_shape_it_is_given(size):
    """SAME: the shapes whose convolution with stride 2 is 3 x 4; (k - stride) / 2 is cut off."""
    tensors = weighted(oracle.F32, drawn(1, 3, 4, 3), drawn(2, 3, 3, 3))
    cut = [max(0, 2 * (n - 1) + 3 - s) // 2 for n, s in zip((3, 4), size, strict=True)]
    expected = transposed(*(t.real for t in tensors), (2, 2), cut, size)
    scalars = Geometry((3, 3), same=True, strides=(2, 2)).operands() | {"activation": 0}
    shape = oracle.Stored(Operand(oracle.I32, (4,)), np.array([1, *size, 2], np.int32))
    check(spec.TRANSPOSE_CONV_2D, oracle.F32, tensors, expected, scalars | {"output_shape": shape})


def test_transposed_conv_cut_beyond_the_end_by_negative_padding():
    tensors = weighted(oracle.F32, drawn(1, 2, 2, 1), drawn(1, 2, 2, 1))
    expected = transposed(*(t.real for t in tensors), (2, 2), (0, 0), (5, 5))
    scalars = Geometry((2, 2), pads=(0, -1, 0, -1), strides=(2, 2)).operands() | {"activation": 0}
    check(spec.TRANSPOSE_CONV_2D, oracle.F32, tensors, expected, scalars)


def test_a_batch_of_no_images_convolves_to_none():
    tensors = weighted(oracle.F32, np.zeros((0, 5, 5, 2)), drawn(3, 3, 3, 2))
    scalars = Geometry((3, 3)).operands() | {"activation": 0}
    check(spec.CONV_2D, oracle.F32, tensors, np.zeros((0, 3, 3, 3)), scalars)
