"""Elements at places that other tensors name."""

from collections.abc import Mapping

import numpy as np
from onnx import helper

from tests.random_graphs.drawing import Drawing, Known
from tests.random_graphs.recipes.recipe import INT32, Recipe, axis_of, rows


def _gather(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)), 1, 4)
    axis = axis_of(g, x)
    size = x.shape[axis]
    shape = g.random.choice(((), (1,), (3,), (2, 2)))
    least = -size if g.opset >= 11 and g.chance(0.3) else 0
    places = g.numbers.integers(least, size, shape)
    return g.add(op, x, _places(g, places), axis=axis, exact=True)


def _places(g: Drawing, places: np.ndarray) -> Known:
    """Indexes, mostly constant, else a graph input of int32 or int64."""
    dtype = g.random.choice((np.int32, np.int64))
    if g.chance(0.7):
        return g.constant(np.asarray(places, dtype))
    known = Known(
        f"x{len(g.inputs)}", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), places.shape
    )
    g.inputs.append(known)
    g.feeds[known.name] = np.asarray(places, dtype)
    return known


def _gather_elements(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 4)
    axis = axis_of(g, x)
    sizes = list(x.shape)
    sizes[axis] = g.random.choice((1, 2, 3))
    size = x.shape[axis]
    return g.add(op, x, _places(g, g.numbers.integers(0, size, sizes)), axis=axis, exact=True)


def _gather_nd(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 4)
    depth = g.random.randint(1, x.rank)
    rows = np.stack([g.numbers.integers(0, d, (3,)) for d in x.shape[:depth]], -1)
    return g.add(op, x, g.constant(rows), exact=True)


def _scatter(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 4)
    axis = g.random.randrange(x.rank)
    places = np.argsort(g.numbers.random(x.shape), axis)
    return g.add(op, x, g.constant(places), g.like(g.float, x.shape), axis=axis, exact=True)


def _scatter_nd(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 4)
    count = g.random.randint(1, x.shape[0])
    rows = g.numbers.permutation(x.shape[0])[:count, None]
    return g.add(op, x, g.constant(rows), g.like(g.float, (count, *x.shape[1:])), exact=True)


def _one_hot(g: Drawing, op: str) -> object:
    to = helper.tensor_dtype_to_np_dtype(g.float)
    places = g.new(INT32, (2, 3), 0, 0.75)  # of 0 to 3
    return g.add(
        op,
        places,
        g.constant(np.array([4], np.int32)),
        g.constant(np.array([0, 1], to)),
        exact=True,
    )


def _reverse(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2, 4)
    lengths = g.constant(g.numbers.integers(1, x.shape[0] + 1, (x.shape[1],)))
    return g.add(op, x, lengths, exact=True)


RECIPES: Mapping[str, Recipe] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **rows("Scatter", "ScatterElements", recipe=_scatter),
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse,
}
