"""How to draw a node of each operator: its inputs, its attributes, what they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
from onnx import TensorProto, helper

from tests.random_graphs.drawing import Drawing, Known, Unfit

Recipe: TypeAlias = Callable[[Drawing, str], object]
BOOL, INT32, INT64 = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64


def _unary(g: Drawing, op: str, *, exact: bool = False, **drawn: tuple[float, float]) -> object:
    """Any tensor; `drawn`: attributes between two numbers, sometimes left out."""
    given = {k: g.random.uniform(*ends) for k, ends in drawn.items() if g.chance(0.7)}
    return g.add(op, g.some(g.type_of(op)), exact=exact, **given)


def _steps(g: Drawing, op: str, **drawn: tuple[float, float]) -> object:
    """A function that jumps: of numbers on which all agree."""
    given = {k: g.random.uniform(*ends) for k, ends in drawn.items() if g.chance(0.7)}
    return g.add(op, g.some(g.type_of(op), exact=True), exact=True, **given)


def _within(g: Drawing, op: str, low: float, high: float) -> object:
    """A function of numbers between the two only."""
    return g.add(op, g.new(g.float, g.shape(), low, high))


def _binary(g: Drawing, op: str, *, steps: bool = False, exact: bool = True) -> object:
    x = g.some(g.type_of(op), exact=steps)
    return g.add(op, *_either_way(g, x, g.broadcast(x, exact=steps)), exact=exact)


def _either_way(g: Drawing, x: Known, y: Known) -> tuple[Known, Known]:
    return (y, x) if g.chance(0.3) else (x, y)


def _divided(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((INT32, g.float)) if op == "Mod" else g.type_of(op), exact=True)
    divisor = g.new(x.dtype, x.shape[g.random.randint(0, x.rank) :], 0.5, 2.0)
    floats = {"fmod": 1} if op == "Mod" and x.dtype == g.float else {}
    return g.add(op, x, divisor, **floats)


def _pow(g: Drawing, op: str) -> object:
    exponent = np.asarray(g.random.choice((0.5, 1, 2, 3, -1)))
    to = helper.tensor_dtype_to_np_dtype(g.float)
    return g.add(op, g.new(g.float, g.shape(), 0.25, 2.0), g.constant(exponent.astype(to)))


def _several(g: Drawing, op: str) -> object:
    x = g.some(g.float)
    return g.add(
        op, x, *(g.broadcast(x) for _ in range(g.random.randint(0, 2))), exact=op != "Mean"
    )


def _where(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)) if g.opset >= 9 else g.float)
    y = g.broadcast(x)
    where = [1 if g.chance(0.3) else d for d in x.shape]
    return g.add(op, g.like(BOOL, where), *_either_way(g, x, y), exact=True)


def _cast(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32, INT64, BOOL)), exact=True)
    to = g.random.choice((g.float, INT32, INT64, BOOL))
    if op == "CastLike":
        return g.add(op, x, g.like(to, (2,)), exact=True)
    return g.add(op, x, to=to, exact=True)


def _clip(g: Drawing, op: str) -> object:
    low, high = g.random.choice(((0.0, 6.0), (-1.0, 1.0), (-0.5, 0.75), (None, 1.0), (0.0, None)))
    x = g.some()
    if g.opset < 11:
        return g.add(op, x, min=low, max=high, exact=True)
    to = helper.tensor_dtype_to_np_dtype(g.float)
    ends = [None if e is None else g.constant(np.asarray(e, to)) for e in (low, high)]
    return g.add(op, x, *ends, exact=True)


def _axis_of(g: Drawing, x: Known) -> int:
    return g.random.randint(-x.rank, x.rank - 1) if g.opset >= 11 else g.random.randrange(x.rank)


def _along(g: Drawing, op: str, *, steps: bool = False, **drawn: tuple[int, ...]) -> object:
    """One axis, sometimes the default."""
    x = g.some(g.type_of(op), 1, exact=steps)
    given = {k: g.random.choice(v) for k, v in drawn.items()}
    axis = _axis_of(g, x) if g.chance(0.8) or x.rank < 2 else None
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
    return g.add(op, x, axis=_axis_of(g, x), keepdims=g.random.choice((0, 1)), exact=True)


def _top_k(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, exact=True)
    axis = _axis_of(g, x)
    k = g.random.randint(1, x.shape[axis])
    if g.opset < 10:
        return g.add(op, x, axis=axis, k=k, outputs=2, exact=True)
    largest = g.random.choice((0, 1)) if g.opset >= 11 else None
    return g.add(op, x, g.ints(k), axis=axis, largest=largest, outputs=2, exact=True)


def _cum_sum(g: Drawing, op: str) -> object:
    x = g.some(g.type_of(op), 1)
    axis = g.constant(np.asarray(_axis_of(g, x), np.int64))
    return g.add(op, x, axis, exclusive=g.random.choice((0, 1)), reverse=g.random.choice((0, 1)))


def _spatial(g: Drawing) -> tuple[Known, int]:
    """An image [N, C, ...] of one to three spatial dimensions, mostly two."""
    dims = g.random.choice((1, 2, 2, 2, 2, 2, 3))
    fit = [v for v in g.values if v.dtype == g.float and v.rank == dims + 2]
    if fit and g.chance(0.6):
        return g.random.choice(fit), dims
    sizes = [g.random.choice((3, 4, 5, 6, 8)) for _ in range(dims)]
    channels = g.random.choice((1, 2, 3, 4))
    return g.new(g.float, (g.random.choice((1, 1, 2)), channels, *sizes)), dims


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
    x, dims = _spatial(g)
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
    x, dims = _spatial(g)
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
    return g.add(op, _spatial(g)[0], p=2 if op == "GlobalLpPool" else None)


def _gemm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2, 2)
    turned = g.chance(0.3)
    inner, rows = x.shape if turned else x.shape[::-1]
    units = g.random.choice((1, 2, 4))
    b_turned = g.chance(0.5)
    w = g.weights(units, inner) if b_turned else g.weights(inner, units)
    shape = g.random.choice(((units,), (1, units), (rows, units), (rows, 1), (1,), None))
    if shape is None and g.opset < 11:
        shape = (units,)
    given = {"alpha": g.random.choice((None, 0.5)), "beta": g.random.choice((None, 2.0))}
    c = None if shape is None else g.weights(*shape)
    return g.add(op, x, w, c, transA=int(turned), transB=int(b_turned), **given)


def _matmul(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 5)
    columns = [g.random.choice((1, 2, 3))] if g.chance(0.85) else []
    outer = x.shape[:-2] if g.chance(0.6) and columns else ()
    outer = tuple(1 if g.chance(0.2) else d for d in outer)
    return g.add(op, x, g.weights(*outer, x.shape[-1], *columns))


def _batch_norm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2, 5)
    channels = x.shape[1]
    variance = g.constant(g.draw(g.float, (channels,), 0.5, 2.0))
    return g.add(op, x, *(g.weights(channels) for _ in range(3)), variance)


def _group_norm(g: Drawing, op: str) -> object:
    x, _ = _spatial(g)
    channels = x.shape[1]
    groups = g.random.choice([d for d in (1, 2, 3, 4) if channels % d == 0])
    size = groups if g.opset < 21 else channels
    return g.add(op, x, g.weights(size), g.weights(size), num_groups=groups)


def _instance_norm(g: Drawing, op: str) -> object:
    x, _ = _spatial(g)
    return g.add(op, x, g.weights(x.shape[1]), g.weights(x.shape[1]))


def _layer_norm(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1, 5)
    axis = g.random.randrange(x.rank)
    bias = [g.weights(*x.shape[axis:])] if op == "LayerNormalization" and g.chance(0.6) else []
    return g.add(op, x, g.weights(*x.shape[axis:]), *bias, axis=axis)


def _mvn(g: Drawing, op: str) -> object:
    x = g.some(g.float, 4, 4)
    return g.add(op, x, axes=g.random.choice(((0, 2, 3), (1, 2, 3), (2, 3))))


def _lp_norm(g: Drawing, op: str) -> object:
    x = g.new(g.float, g.shape(1), 0.5, 2.0)
    return g.add(op, x, axis=_axis_of(g, x), p=g.random.choice((1, 2)))


def _lrn(g: Drawing, op: str) -> object:
    x = g.some(g.float, 4, 4)
    return g.add(op, x, size=g.random.choice((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)


def _prelu(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1)
    sizes = tuple(1 if g.chance(0.4) else d for d in x.shape)[g.random.randrange(x.rank) :]
    return g.add(op, x, g.weights(*sizes), exact=True)


def _anything(g: Drawing, least: int = 0, most: int = 6) -> Known:
    return g.some(g.random.choice((g.float, g.float, g.float, INT32, INT64, BOOL)), least, most)


def _moved(g: Drawing, op: str) -> object:
    """Identity, Dropout and the like."""
    return g.add(op, g.some() if op == "Dropout" else _anything(g), exact=True)


def _transpose(g: Drawing, op: str) -> object:
    x = _anything(g, 1)
    perm = g.random.sample(range(x.rank), x.rank) if g.chance(0.85) else None
    return g.add(op, x, perm=perm, exact=True)


def _reshape(g: Drawing, op: str) -> object:
    x = _anything(g)
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
    x = _anything(g, 1)
    return g.add(op, x, axis=g.random.randint(0, x.rank), exact=True)


def _axes(g: Drawing, op: str, x: Known, axes: list[int]) -> object:
    if g.opset < 13:
        return g.add(op, x, axes=axes, exact=True)
    return g.add(op, x, g.ints(*axes), exact=True)


def _squeeze(g: Drawing, op: str) -> object:
    x = _anything(g, 1)
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if not ones:
        raise Unfit(op)
    if g.chance(0.2):
        return g.add(op, x, exact=True)
    return _axes(g, op, x, sorted(g.random.sample(ones, g.random.randint(1, len(ones)))))


def _unsqueeze(g: Drawing, op: str) -> object:
    x = _anything(g, 0, 4)
    count = g.random.choice((1, 2))
    return _axes(g, op, x, sorted(g.random.sample(range(x.rank + count), count)))


def _expand(g: Drawing, op: str) -> object:
    x = _anything(g)
    sizes = [g.random.choice((2, 3)) if d == 1 and g.chance(0.6) else d for d in x.shape]
    if g.chance(0.3) and x.rank < 6:
        sizes = [2, *sizes]
    return g.add(op, x, g.ints(*sizes), exact=True)


def _tile(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)), 1)
    return g.add(op, x, g.ints(*(g.random.choice((1, 1, 2, 3)) for _ in x.shape)), exact=True)


def _concat(g: Drawing, op: str) -> object:
    x = _anything(g, 1)
    axis = _axis_of(g, x)
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
    x = _anything(g, 1)
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


def _gather(g: Drawing, op: str) -> object:
    x = g.some(g.random.choice((g.float, INT32)), 1, 4)
    axis = _axis_of(g, x)
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
    axis = _axis_of(g, x)
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


def _trilu(g: Drawing, op: str) -> object:
    x = g.some(g.float, 2)
    k = g.constant(np.asarray(g.random.randint(-2, 2), np.int64)) if g.chance(0.6) else None
    return g.add(op, x, k, upper=g.random.choice((0, 1)), exact=True)


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


def _recurrent(g: Drawing, op: str) -> object:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction = g.random.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = (g.random.randint(1, 3) for _ in range(4))
    x = g.like(g.float, (steps, batch, size))
    w, r = g.weights(ways, gates * hidden, size), g.weights(ways, gates * hidden, hidden)
    bias = g.weights(ways, 2 * gates * hidden) if g.chance(0.6) else None
    state = g.weights(ways, batch, hidden) if g.chance(0.4) else None
    outputs = g.random.choice((1, 2, 3) if op == "LSTM" else (1, 2))
    reset = {"linear_before_reset": g.random.choice((0, 1))} if op == "GRU" else {}
    given = {"direction": direction, "hidden_size": hidden, **reset}
    return g.add(op, x, w, r, bias, None, state, outputs=outputs, **given)


def _einsum(g: Drawing, op: str) -> object:
    equation, a, b = g.random.choice(
        (
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 4)),
            ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
            ("ij,ij->j", (2, 3), (2, 3)),
        )
    )
    return g.add(op, g.like(g.float, a), g.like(g.float, b), equation=equation)


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


def _roi_align(g: Drawing, op: str) -> object:
    x = g.like(g.float, (1, 2, 6, 6))
    regions = g.constant(np.array([[0, 0, 3, 4], [1, 1, 5, 5]], np.float32))
    return g.add(op, x, regions, g.ints(0, 0), output_height=2, output_width=3, sampling_ratio=2)


def _contributed(g: Drawing, op: str) -> object:
    x = g.some(g.float, 1)
    given = [g.weights(x.shape[-1])] if op == "BiasGelu" else []
    return g.add(op, x, *given, domain="com.microsoft")


def _if(g: Drawing, op: str) -> object:
    then, otherwise = g.random.sample(("Relu", "Neg", "Abs", "Identity", "Sigmoid"), 2)
    return g.either(g.some(g.float), then, otherwise)


def _rows(*names: str, recipe: Recipe) -> dict[str, Recipe]:
    return dict.fromkeys(names, recipe)


_ALPHA = {"alpha": (0.1, 1.5)}
RECIPES: Mapping[str, Recipe] = {
    **_rows("Abs", "Neg", "Relu", recipe=partial(_unary, exact=True)),
    **_rows("Atan", "Asinh", "Cos", "Erf", "Exp", "Gelu", "HardSwish", recipe=_unary),
    **_rows("Mish", "Sigmoid", "Sin", "Softplus", "Softsign", "Swish", "Tanh", recipe=_unary),
    **_rows("Cosh", "Sinh", "Selu", recipe=_unary),
    **_rows("Celu", "Elu", "LeakyRelu", recipe=partial(_unary, **_ALPHA)),
    "HardSigmoid": partial(_unary, alpha=(0.1, 0.5), beta=(0.2, 0.6)),
    "ThresholdedRelu": partial(_steps, **_ALPHA),
    "Shrink": partial(_steps, lambd=(0.2, 1.0), bias=(-0.5, 0.5)),
    **_rows("Ceil", "Floor", "Round", "Sign", "IsNaN", "IsInf", "Not", recipe=_steps),
    **_rows("Acos", "Asin", "Atanh", recipe=partial(_within, low=-0.9, high=0.9)),
    "Acosh": partial(_within, low=1.1, high=3.0),
    **_rows("Log", "Sqrt", "Reciprocal", recipe=partial(_within, low=0.25, high=3.0)),
    **_rows("Add", "Sub", "Mul", "And", "Or", "Xor", recipe=_binary),
    **_rows("Equal", "Greater", "GreaterOrEqual", recipe=partial(_binary, steps=True)),
    **_rows("Less", "LessOrEqual", recipe=partial(_binary, steps=True)),
    **_rows("Div", "Mod", recipe=_divided),
    "Pow": _pow,
    **_rows("Max", "Min", "Mean", "Sum", recipe=_several),
    "Where": _where,
    **_rows("Cast", "CastLike", recipe=_cast),
    "Clip": _clip,
    **_rows("Softmax", "LogSoftmax", recipe=_along),
    "Hardmax": partial(_along, steps=True),
    **_rows("ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", recipe=_reduced),
    **_rows("ReduceSum", "ReduceSumSquare", "ReduceLogSumExp", recipe=_reduced),
    **_rows("ReduceL2", "ReduceLogSum", recipe=partial(_reduced, low=0.25)),
    **_rows("ArgMax", "ArgMin", recipe=_arg),
    "TopK": _top_k,
    "CumSum": _cum_sum,
    **_rows("Conv", "ConvTranspose", recipe=_conv),
    **_rows("AveragePool", "LpPool", "MaxPool", recipe=_pool),
    **_rows("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", recipe=_global_pool),
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    **_rows("LayerNormalization", "RMSNormalization", recipe=_layer_norm),
    "MeanVarianceNormalization": _mvn,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
    "PRelu": _prelu,
    **_rows("Dropout", "Identity", recipe=_moved),
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
    **_rows("DepthToSpace", "SpaceToDepth", recipe=_depth),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **_rows("Scatter", "ScatterElements", recipe=_scatter),
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse,
    "Trilu": _trilu,
    **_rows("Resize", "Upsample", recipe=_resize),
    **_rows("LSTM", "GRU", "RNN", recipe=_recurrent),
    "Einsum": _einsum,
    **_rows("Shape", "Size", "EyeLike", recipe=_sizes),
    "ConstantOfShape": _filled,
    "Range": _range,
    "RoiAlign": _roi_align,
    "If": _if,
}
CONTRIBUTED: Mapping[str, Recipe] = {
    **_rows("BiasGelu", "FastGelu", "Gelu", "QuickGelu", recipe=_contributed),
}
"""Of com.microsoft."""
