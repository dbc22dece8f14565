"""Tensors made of sizes and numbers alone."""

from collections.abc import Mapping

import numpy as np
from onnx import helper

from tests.random_graphs.drawing import Drawing
from tests.random_graphs.recipes.recipe import Recipe, rows


def _sizes(g: Drawing, op: str) -> object:
    if op == "EyeLike":
        return g.add(op, g.some(g.float, 2, 2), k=g.random.randint(-1, 1), exact=True)
    return g.add(op, g.some(), exact=True)


def _filled(g: Drawing, op: str) -> object:
    value = helper.make_tensor("value", g.float, [1], [g.random.choice((0.0, 1.5))])
    return g.add(op, g.ints(*g.shape(1, 4)), value=value, exact=True)


def _range(g: Drawing, op: str) -> object:
    ends = [g.constant(np.asarray(n, np.int64)) for n in (0, g.random.randint(2, 9), 2)]
    return g.add(op, *ends, exact=True)


RECIPES: Mapping[str, Recipe] = {
    **rows("Shape", "Size", "EyeLike", recipe=_sizes),
    "ConstantOfShape": _filled,
    "Range": _range,
}
