"""Elements moved, repeated, joined and cut out by fixed rules."""

from collections.abc import Mapping

import numpy as np
from onnx import helper

from tests.random_graphs.drawing import Drawing, Known, Unfit
from tests.random_graphs.recipes.recipe import INT32, Recipe, anything, axis_of, rows


def _moved(g: Drawing, op: str) -> object:
    """Identity, Dropout and the like."""
    return g.add(op, g.some() if op == "Dropout" else anything(g), exact=True)


def _transpose(g: Drawing, op: str) -> object:
    x = anything(g, 1)
    perm = g.random.sample(range(x.rank), x.rank) if g.chance(0.85) else None
    return g.add(op, x, perm=perm, exact=True)


def _reshape(g: Drawing, op: str) -> object:
    x = anything(g)
    total, sizes = int(np.prod(x.shape)), []
    while len(sizes) < g.random.choice((0, 1, 2, 3, 4, 5)) and total > 1:
        d = g.random.choice([d for d in range(1, total + 1) if total % d == 0])
        sizes.append(d)
        total //= d
    sizes.append(total)
    if g.chance(0.4):
        sizes[g.random.randrange(len(sizes))] = -1
    return g.add(op, x, g.ints(*sizes), exact=True)


def _flatten(g: Drawing, op: str) -> object:
    x = anything(g, 1)
    return g.add(op, x, axis=g.random.randint(0, x.rank), exact=True)


def _axes(g: Drawing, op: str, x: Known, axes: list[int]) -> object:
    if g.opset < 13:
        return g.add(op, x, axes=axes, exact=True)
    return g.add(op, x, g.ints(*axes), exact=True)


def _squeeze(g: Drawing, op: str) -> object:
    x = anything(g, 1)
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if not ones:
        raise Unfit(op)
    if g.chance(0.2):
        return g.add(op, x, exact=True)
    return _axes(g, op, x, sorted(g.random.sample(ones, g.random.randint(1, len(ones)))))


def _unsqueeze(g: Drawing, op: str) -> object:
    x = anything(g, 0, 4)
    count = g.random.choice((1, 2))
    return _axes(g, op, x, sorted(g.random.sample(range(x.rank + count), count)))


def _expand(g: Drawing, op: str) -> object:
    x = anything(g)
    sizes = [g.random.choice((2, 3)) if d == 1 and g.chance(0.6) else d for d in x.shape]
    if g.chance(0.3) and x.rank < 6:
        sizes = [2, *sizes]
    return g.add(op, x, g.ints(*sizes), exact=True)


def _tile(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)), 1)
    return g.add(op, x, g.ints(*(g.random.choice((1, 1, 2, 3)) for _ in x.shape)), exact=True)


def _concat(g: Drawing, op: str) -> object:
    x = anything(g, 1)
    axis = axis_of(g, x)
    others = []
    for _ in range(g.random.choice((0, 1, 1, 2))):
        sizes = list(x.shape)
        sizes[axis] = g.random.choice((1, 2, sizes[axis]))
        others.append(g.like(x.dtype, sizes))
    given = [x, *others]
    g.random.shuffle(given)
    return g.add(op, *given, axis=axis, exact=True)


def _split(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)), 1)
    axis = g.random.randrange(x.rank)
    size = x.shape[axis]
    parts = g.random.randint(1, min(size, 3))
    if g.chance(0.5) and (size % parts == 0 or g.opset >= 18):
        number = {"num_outputs": parts} if g.opset >= 18 else {}
        return g.add(op, x, axis=axis, outputs=parts, exact=True, **number)
    cuts = sorted(g.random.sample(range(1, size), parts - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    if g.opset < 13:
        return g.add(op, x, axis=axis, split=sizes, outputs=parts, exact=True)
    return g.add(op, x, g.ints(*sizes), axis=axis, outputs=parts, exact=True)


def _slice(g: Drawing, op: str) -> object:
    x = anything(g, 1)
    axes = g.random.sample(range(x.rank), g.random.randint(1, x.rank))
    starts, ends, steps = [], [], []
    for a in axes:
        size = x.shape[a]
        start, step = g.random.randrange(size), g.random.choice((1, 1, 2, -1))
        end = g.random.randint(start + 1, size) if step > 0 else g.random.choice((-size - 1, -99))
        starts.append(start - size if g.chance(0.3) else start)
        ends.append(2**31 - 1 if step > 0 and g.chance(0.2) else end)
        steps.append(step)
    if g.opset < 10:
        if min(steps) < 0:
            raise Unfit(op)
        return g.add(op, x, axes=axes, starts=starts, ends=ends, exact=True)
    given = [g.ints(*starts), g.ints(*ends), g.ints(*axes)]
    return g.add(op, x, *given, *([g.ints(*steps)] if set(steps) != {1} else []), exact=True)


def _pad(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1)
    mode = g.random.choice(("constant", "constant", "reflect", "edge"))
    most = min(x.shape) - 1 if mode == "reflect" else 2
    pads = [g.random.randint(0, most) for _ in range(2 * x.rank)]
    if mode == "constant" and g.chance(0.2):
        pads[0] = -1 if x.shape[0] > 1 else 0
    if g.opset < 11:
        return g.add(op, x, pads=pads, mode=mode, value=0.5, exact=True)
    to = helper.tensor_dtype_to_np_dtype(g.float)
    number = g.constant(np.asarray(0.5, to)) if g.chance(0.5) and mode == "constant" else None
    return g.add(op, x, g.ints(*pads), number, mode=mode, exact=True)


def _depth(g: Drawing, op: str) -> object:
    b, c = 2, g.random.choice((1, 2, 3))
    if op == "SpaceToDepth":
        return g.add(op, g.like(g.float, (1, c, 4, 6)), blocksize=b, exact=True)
    mode = g.random.choice((None, "DCR", "CRD")) if g.opset >= 11 else None
    return g.add(op, g.like(g.float, (1, c * b * b, 2, 3)), blocksize=b, mode=mode, exact=True)


def _trilu(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2)
    k = g.constant(np.asarray(g.random.randint(-2, 2), np.int64)) if g.chance(0.6) else None
    return g.add(op, x, k, upper=g.random.choice((0, 1)), exact=True)


RECIPES: Mapping[str, Recipe] = {
    **rows("Dropout", "Identity", recipe=_moved),
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    **rows("DepthToSpace", "SpaceToDepth", recipe=_depth),
    "Trilu": _trilu,
}
