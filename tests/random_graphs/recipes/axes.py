"""Numbers along axes: softmax, reductions, the largest ones, running sums."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from tests.random_graphs.drawing import Drawing
from tests.random_graphs.recipes.recipe import Recipe, axis_of, rows


def _along(g: Drawing, op: str, *, steps: bool = False, **drawn: tuple[int, ...]) -> object:
    """One axis, sometimes the default."""
    x = g.some(g.type_of(op), 1, exact=steps)
    given = {k: g.random.choice(v) for k, v in drawn.items()}
    axis = axis_of(g, x) if g.chance(0.8) or x.rank < 2 else None
    return g.add(op, x, axis=axis, **given, exact=steps)


def _reduced(g: Drawing, op: str, low: float | None = None) -> object:
    x = g.some(g.type_of(op), 1) if low is None else g.new(g.float, g.shape(1), low, 2.0)
    axes = g.random.sample(range(x.rank), g.random.randint(1, x.rank))
    if g.opset >= 11:
        axes = [a - x.rank if g.chance(0.3) else a for a in axes]
    given = {"keepdims": g.random.choice((0, 1, None))}
    since = 13 if op == "ReduceSum" else 18
    if g.chance(0.2):
        return g.add(op, x, **given)
    if g.opset < since:
        return g.add(op, x, axes=axes, **given)
    return g.add(op, x, g.ints(*axes), **given)


def _arg(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, exact=True)
    return g.add(op, x, axis=axis_of(g, x), keepdims=g.random.choice((0, 1)), exact=True)


def _top_k(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, exact=True)
    axis = axis_of(g, x)
    k = g.random.randint(1, x.shape[axis])
    if g.opset < 10:
        return g.add(op, x, axis=axis, k=k, outputs=2, exact=True)
    largest = g.random.choice((0, 1)) if g.opset >= 11 else None
    return g.add(op, x, g.ints(k), axis=axis, largest=largest, outputs=2, exact=True)


def _cum_sum(g: Drawing, op: str) -> object:
    x = g.some(g.type_of(op), 1)
    axis = g.constant(np.asarray(axis_of(g, x), np.int64))
    return g.add(op, x, axis, exclusive=g.random.choice((0, 1)), reverse=g.random.choice((0, 1)))


RECIPES: Mapping[str, Recipe] = {
    **rows("Softmax", "LogSoftmax", recipe=_along),
    "Hardmax": partial(_along, steps=True),
    **rows("ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", recipe=_reduced),
    **rows("ReduceSum", "ReduceSumSquare", "ReduceLogSumExp", recipe=_reduced),
    **rows("ReduceL2", "ReduceLogSum", recipe=partial(_reduced, low=0.25)),
    **rows("ArgMax", "ArgMin", recipe=_arg),
    "TopK": _top_k,
    "CumSum": _cum_sum,
}
