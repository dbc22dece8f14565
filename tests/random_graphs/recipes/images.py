"""Windows and places of images: convolutions, pools, resizing, regions."""

from collections.abc import Mapping

import numpy as np

from tests.random_graphs.drawing import Drawing, Known
from tests.random_graphs.recipes.recipe import Recipe, image, rows


def _window(g: Drawing, dims: int, kernel: list[int], *, dilated: bool) -> dict[str, object]:
    """Strides, pads (none, explicit or automatic) and dilations, each sometimes left out."""
    given: dict[str, object] = {"kernel_shape": kernel}
    if g.chance(0.6):
        given["strides"] = [g.random.choice((1, 1, 2, 3)) for _ in range(dims)]
    if dilated and g.chance(0.2):
        given["dilations"] = [g.random.choice((1, 2)) for _ in range(dims)]
    kind = g.random.choice(("none", "explicit", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if kind == "explicit":
        given["pads"] = [g.random.randint(0, max(0, k - 1)) for k in kernel * 2]
    elif kind != "none" and "dilations" not in given:
        given["auto_pad"] = kind
    return given


def _kernel(g: Drawing, x: Known) -> list[int]:
    return [min(g.random.choice((1, 2, 3)), d) for d in x.shape[2:]]


def _conv(g: Drawing, op: str) -> object:
    x, dims = image(g)
    kernel, channels = _kernel(g, x), x.shape[1]
    group = g.random.choice([d for d in (1, 2, 3, 4) if channels % d == 0])
    group = channels if g.chance(0.25) else group
    each = g.random.choice((1, 2))
    bias = g.weights(each * group) if g.chance(0.6) else None
    shape = (each * group, channels // group)
    given = _window(g, dims, kernel, dilated=True)
    if op == "ConvTranspose":
        shape = (channels, each)
        if "auto_pad" not in given and "dilations" not in given and g.chance(0.3):
            strides = given.get("strides", [1] * dims)
            given["output_padding"] = [g.random.randrange(s) for s in strides]  # type: ignore[attr-defined]
    return g.add(op, x, g.weights(*shape, *kernel), bias, group=group, **given)


def _pool(g: Drawing, op: str) -> object:
    x, dims = image(g)
    given = _window(g, dims, _kernel(g, x), dilated=op == "MaxPool" and g.opset >= 10)
    if g.opset >= 10 and op != "LpPool" and "auto_pad" not in given:
        given["ceil_mode"] = g.random.choice((0, 0, 1))
    if op == "AveragePool":
        given["count_include_pad"] = g.random.choice((0, 1))
    if op == "LpPool":
        given["p"] = g.random.choice((1, 2))
    if op == "MaxPool" and g.chance(0.15) and x.exact:
        return g.add(op, x, outputs=2, exact=True, **given)
    return g.add(op, x, exact=op == "MaxPool", **given)


def _global_pool(g: Drawing, op: str) -> object:
    return g.add(op, image(g)[0], p=2 if op == "GlobalLpPool" else None)


def _resize(g: Drawing, op: str) -> object:
    x = g.like(g.float, (1, g.random.choice((1, 3)), *g.random.choice(((2, 3), (4, 4), (5, 1)))))
    scales = g.constant(np.array([1, 1, *g.random.choice(((2, 2), (1, 3), (2.5, 2)))], np.float32))
    mode = g.random.choice(("nearest", "linear"))
    if op == "Upsample" or g.opset < 11:
        return g.add(op, x, scales, mode=mode)
    given: dict[str, object] = {}
    if mode == "nearest":
        given["nearest_mode"] = g.random.choice(("floor", "round_prefer_floor", "ceil"))
    given["coordinate_transformation_mode"] = g.random.choice(
        ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")
    )
    if g.chance(0.5):
        sizes = g.ints(*x.shape[:2], 5, 7)
        return g.add(op, x, None, None, sizes, mode=mode, **given)
    return g.add(op, x, None, scales, mode=mode, **given)


def _roi_align(g: Drawing, op: str) -> object:
    x = g.like(g.float, (1, 2, 6, 6))
    regions = g.constant(np.array([[0, 0, 3, 4], [1, 1, 5, 5]], np.float32))
    return g.add(op, x, regions, g.ints(0, 0), output_height=2, output_width=3, sampling_ratio=2)


RECIPES: Mapping[str, Recipe] = {
    **rows("Conv", "ConvTranspose", recipe=_conv),
    **rows("AveragePool", "LpPool", "MaxPool", recipe=_pool),
    **rows("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", recipe=_global_pool),
    **rows("Resize", "Upsample", recipe=_resize),
    "RoiAlign": _roi_align,
}
