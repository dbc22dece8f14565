"""Windows, regions and sizes of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.random_graphs.limits.drawing import Draw


def _window(d: Draw, axes: int, *, dilated: bool) -> None:
    d.some(
        strides=lambda: d.integers(axes, 1, 2, 3),
        pads=lambda: d.integers(2 * axes, 0, 1, 2),
    )
    if dilated:
        d.some(dilations=lambda: d.integers(axes, 1, 2, 3))
    if d.random.random() < 0.15:
        d.attributes.pop("pads", None)
        d.attributes["auto_pad"] = d.random.choice(("VALID", "SAME_UPPER", "SAME_LOWER"))
        if not d.op_type.startswith("Conv"):
            # ONNX Runtime's pools leave the dilation out of SAME, and so out of their own shapes
            d.attributes.pop("dilations", None)


def _conv(d: Draw) -> None:
    channels = d.image()
    kernel, group = d.random.choice((1, 2, 3)), d.random.choice((1, 1, channels))
    rng = np.random.default_rng(d.seed)
    weights = rng.integers(-4, 4, (2 * group, channels // group, kernel, kernel)) / 4
    if d.op_type == "ConvTranspose":
        weights = rng.integers(-4, 4, (channels, 2, kernel, kernel)) / 4
        d.some(output_padding=lambda: d.integers(2, 0, 1))
        if d.random.random() < 0.2:
            d.attributes["output_shape"] = d.integers(2, 4, 8, 16)
    d.give(weights, np.float32)
    _window(d, 2, dilated=True)
    d.some(kernel_shape=lambda: d.integers(2, kernel, extreme=0.1))
    if group > 1 or d.random.random() < 0.1:
        d.attributes["group"] = d.integer(group, extreme=0.1)


def _pool(d: Draw) -> None:
    d.image()
    d.opset = d.random.choice((12, 17, 22))
    d.attributes["kernel_shape"] = d.integers(2, 1, 2, 3)
    _window(d, 2, dilated=d.op_type == "MaxPool" or d.opset == 22)
    d.some(ceil_mode=lambda: d.integer(0, 1, extreme=0.1))
    if d.op_type == "AveragePool":
        d.some(count_include_pad=lambda: d.integer(0, 1, extreme=0.1))
    if d.op_type == "LpPool":
        d.some(p=lambda: d.integer(1, 2, 3))
        if d.opset != 22:
            d.attributes.pop("ceil_mode", None)


def _big_window(d: Draw) -> None:
    """A kernel that is larger than the image, and padding that makes it fit."""
    d.op_type = d.random.choice(("LpPool", "AveragePool", "MaxPool"))
    d.image()
    kernel = d.random.choice((40, 300, 3000, 30_000))
    d.attributes |= {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}
    d.some(strides=lambda: d.integers(2, 1, 2, 1000), ceil_mode=lambda: 0)
    if d.op_type == "LpPool":
        d.attributes.pop("ceil_mode", None)


def _unpool(d: Draw) -> None:
    d.feed(1, 1, 2, 2)
    d.give(np.array([[[[0, 3], [8, 15]]]]) if d.random.random() < 0.7 else [[[[0, 1], [2, 2**40]]]])
    d.attributes["kernel_shape"] = d.integers(2, 2)
    d.attributes["strides"] = d.integers(2, 2)


def _global_lp(d: Draw) -> None:
    d.image()
    d.some(p=lambda: d.integer(1, 2, 3))


def _lrn(d: Draw) -> None:
    d.image()
    d.attributes["size"] = d.integer(1, 3, 5, extreme=0.7)
    d.some(alpha=lambda: d.random.choice((1e-4, 0.0, 1e30, -1.0)), bias=lambda: 1.0)


def _roi_align(d: Draw) -> None:
    d.image()
    rows = d.random.choice((1, 3))
    d.give([[0.0, 0.0, d.random.choice((1.0, 3.0, 100.0)), 3.0]] * rows, np.float32)
    d.give([d.integer(0, extreme=0.1)] * rows)
    d.some(
        sampling_ratio=lambda: d.integer(0, 1, 2, 10**7, extreme=0.6),
        output_height=lambda: d.integer(1, 2, 3),
        output_width=lambda: d.integer(1, 2, 3),
        spatial_scale=lambda: d.random.choice((1.0, 0.5, 0.0, 1e30)),
        mode=lambda: d.random.choice(("avg", "max")),
    )


def _resize(d: Draw) -> None:
    d.image()
    d.opset = 19
    shape = next(iter(d.feeds.values())).shape
    d.attributes["mode"] = d.random.choice(("nearest", "linear", "cubic"))
    sizes = [*shape[:2], *d.integers(2, 1, 3, 16)]
    if d.random.random() < 0.5:
        d.names += ["", ""]
        d.give(sizes)
    else:
        d.names.append("")
        d.give([1, 1, *d.random.choice(((2, 2), (0.5, 3), (1e-6, 1), (60, 60), (1e9, 1)))], "f4")
    d.some(antialias=lambda: d.integer(0, 1, extreme=0.1))


def _upsample(d: Draw) -> None:
    d.image()
    d.opset = 9
    d.give([1, 1, *d.random.choice(((2, 2), (1, 3), (60, 60), (1e9, 1), (0.5, 1)))], np.float32)
    d.attributes["mode"] = d.random.choice(("nearest", "linear"))


def _blocks(d: Draw) -> None:
    d.feed(1, 4, 4, 4)
    d.attributes["blocksize"] = d.integer(1, 2, extreme=0.6)


def _instance_norm(d: Draw) -> None:
    channels = d.image()
    d.give(np.ones(channels), np.float32)
    d.give(np.zeros(channels), np.float32)
    d.some(epsilon=lambda: d.random.choice((1e-5, 0.0, 1e30)))


def _grid_sample(d: Draw) -> None:
    d.image()
    d.feed(1, d.random.choice((1, 4)), 3, 2)
    d.some(
        align_corners=lambda: d.integer(0, 1, extreme=0.3),
        padding_mode=lambda: d.random.choice(("zeros", "border", "reflection")),
    )


RECIPES: Mapping[str, Callable[[Draw], None]] = {
    "Conv": _conv,
    "ConvTranspose": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "big window": _big_window,
    "MaxUnpool": _unpool,
    "GlobalLpPool": _global_lp,
    "LRN": _lrn,
    "RoiAlign": _roi_align,
    "Resize": _resize,
    "Upsample": _upsample,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "InstanceNormalization": _instance_norm,
    "GridSample": _grid_sample,
}
