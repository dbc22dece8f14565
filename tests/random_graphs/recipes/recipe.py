"""Recipes, and what the recipes of several families share."""

from collections.abc import Callable
from typing import TypeAlias

from onnx import TensorProto

from tests.random_graphs.drawing import Drawing, Known

Recipe: TypeAlias = Callable[[Drawing, str], object]
"""Adds a node of the named operator, with whatever it needs, to what is drawn; or raises Unfit."""
BOOL, INT32, INT64 = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64


def rows(*names: str, recipe: Recipe) -> dict[str, Recipe]:
    return dict.fromkeys(names, recipe)


def axis_of(g: Drawing, x: Known) -> int:
    return g.random.randint(-x.rank, x.rank - 1) if g.opset >= 11 else g.random.randrange(x.rank)


def image(g: Drawing) -> tuple[Known, int]:
    """An image [N, C, ...] of one to three spatial dimensions, mostly two."""
    dims = g.random.choice((1, 2, 2, 2, 2, 2, 3))
    fit = [v for v in g.values if v.dtype == g.float and v.rank == dims + 2]
    if fit and g.chance(0.6):
        return g.random.choice(fit), dims
    sizes = [g.random.choice((3, 4, 5, 6, 8)) for _ in range(dims)]
    channels = g.random.choice((1, 2, 3, 4))
    return g.new(g.float, (g.random.choice((1, 1, 2)), channels, *sizes)), dims


def anything(g: Drawing, least: int = 0, most: int = 6) -> Known:
    return g.some(g.random.choice((g.float, g.float, g.float, INT32, INT64, BOOL)), least, most)
