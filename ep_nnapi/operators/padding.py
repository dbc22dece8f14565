"""Pad, in modes constant, reflect, edge and wrap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from ep_nnapi.graph.value import MAX_RANK, Constant, Value, only_element
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.spec import GATHER, MIRROR_PAD, PAD, PAD_V2
from ep_nnapi.operators.lib.emit import of_any_type, output_or_temp, reshape, reshaped, write_output
from ep_nnapi.operators.lib.merge_axes import runs, sizes_around
from ep_nnapi.operators.lib.node import Node, int32, op
from ep_nnapi.operators.lib.quantizing import dequantized
from ep_nnapi.operators.lib.slicing import slice_ranges

Paddings = Sequence[tuple[int, int]]
_NEAR_INTEGER = 1e-3
"""Tolerance, in quantization steps, for a pad value to be representable: scales are float32."""
_REFLECT = 0
"""MIRROR_PAD's mode REFLECT, which does not repeat the edge."""


@op("Pad", since=2)
def pad_2(n: Node) -> Iterator[Call]:
    """Padded by the attributes `pads`, `value` and `mode`.

    Source: ONNX Pad-2; NDK ANEURALNETWORKS_PAD, ANEURALNETWORKS_PAD_V2.
    """
    given = _by_axis(n, n.integers("pads"), range(n.input(0).rank))
    yield from _pad(n, given, n.real("value", 0.0))


@op("Pad", since=11)
def pad_11(n: Node) -> Iterator[Call]:
    """Padded by constant `pads` (negative ones crop), along `axes` (default: all).

    Source: ONNX Pad-11, -13, -18, -19, -21, -23 to -25; NDK ANEURALNETWORKS_PAD,
    ANEURALNETWORKS_PAD_V2, ANEURALNETWORKS_MIRROR_PAD, ANEURALNETWORKS_GATHER.
    """
    x, pads = n.input(0), n.integers_at(1)
    axes = n.integers_at(3) if n.has(3) else range(x.rank)
    yield from _pad(n, _by_axis(n, pads, axes), _number(n) if n.has(2) else 0.0)


def _by_axis(n: Node, pads: Sequence[int], axes: Sequence[int]) -> Mapping[int, tuple[int, int]]:
    """Return the padding before and after by axis; raise Reject unless there are two for each."""
    half, rank = len(axes), n.input(0).rank
    detail = f"{len(pads)} pads are given for {half} axes"
    n.require(len(pads) == 2 * half, Reason.SHAPE, detail)
    at = [n.normalized(axis, rank, "an axis") for axis in axes]
    return dict(zip(at, zip(pads[:half], pads[half:], strict=True), strict=True))


def _number(n: Node) -> float:
    """Return the constant pad value; in a QDQ group, the real number."""
    n.constant(2)
    found = dequantized(n.input(2)).constant
    return float(only_element(found, n.input(2).name)) if found is not None else 0.0


def _pad(n: Node, given: Mapping[int, tuple[int, int]], number: float) -> Iterator[Call]:
    x, y, mode = n.input(0), n.output(), n.text("mode", "constant")
    paddings = [given.get(axis, (0, 0)) for axis in range(x.rank)]
    some = all(_kept(*pair) for pair in zip(x.shape, paddings, strict=True))
    n.require(some, Reason.SHAPE, f"pads remove all elements of {x.name}")
    if mode == "constant":
        yield from of_any_type(n, x, y, lambda a, b: _constant(n, a, paddings, number, b))
    else:
        yield from of_any_type(n, x, y, lambda a, b: _by_copying(n, a, paddings, mode, b))


def _kept(size: int, padding: tuple[int, int]) -> range:
    """Return the indexes of an axis that negative pads do not remove."""
    before, after = padding
    return range(max(0, -before), size - max(0, -after))


def _constant(n: Node, x: Value, paddings: Paddings, number: float, y: Value) -> Iterator[Call]:
    """Emit the crop of negative pads, then PAD if the pad value is 0, else PAD_V2."""
    ranges = [_kept(*pair) for pair in zip(x.shape, paddings, strict=True)]
    shape = [len(r) for r in ranges]
    if tuple(shape) != x.shape:
        part = n.temp(x, shape)
        yield from slice_ranges(n, x, ranges, part)
        x = part
    added = [(max(0, before), max(0, after)) for before, after in paddings]
    sizes, rows = list(shape), added
    if x.rank > MAX_RANK:
        groups = runs([i if any(p) else -1 for i, p in enumerate(added)])
        sizes = [prod(shape[i] for i in g) for g in groups]
        rows = [added[g[0]] for g in groups]
        n.require(
            len(sizes) <= MAX_RANK, Reason.RANK, f"{x.name} folds to {len(sizes)} axes, PAD takes 4"
        )
    seen = yield from reshaped(n, x, sizes)
    result = output_or_temp(n, y, [s + sum(row) for s, row in zip(sizes, rows, strict=True)])
    yield _added(n, seen, rows, number, result)
    yield from write_output(n, result, y)


def _added(n: Node, x: Value, rows: Paddings, number: float, y: Value) -> Call:
    """Return the PAD or PAD_V2 call; PAD pads a quantized tensor with its zero point.

    In a QDQ group `number` is real and is quantized; otherwise it is the stored integer.
    """
    paddings = Constant.of(np.array(rows, np.int32))
    q = x.quantization
    if q is not None:
        stored = _stored(x, number) if n.node.parts else int(number)
        call = apply(PAD_V2, x, paddings=paddings, pad_value=stored, out=y)
        # at levels without PAD_V2, the pad value of PAD for a quantized tensor is undefined
        zeros = stored == q.zero_point[0] and n.supports(call)
        return apply(PAD, x, paddings=paddings, out=y) if zeros else call
    if number == 0:
        return apply(PAD, x, paddings=paddings, out=y)
    return apply(PAD_V2, x, paddings=paddings, pad_value=number, out=y)


def _stored(x: Value, number: float) -> int:
    """Return `number` quantized as `x`; raise Reject(QUANTIZATION) if it is not representable."""
    q = x.quantization
    limits = np.iinfo(x.dtype.numpy)
    output_or_temp = number / q.scale[0] + q.zero_point[0] if q is not None else number
    if (
        not limits.min <= output_or_temp <= limits.max
        or abs(output_or_temp - round(output_or_temp)) > _NEAR_INTEGER
    ):
        raise Reject(Reason.QUANTIZATION, f"{x.name} cannot store the pad value {number:g} exactly")
    return round(output_or_temp)


def _by_copying(n: Node, x: Value, paddings: Paddings, mode: str, y: Value) -> Iterator[Call]:
    """Emit MIRROR_PAD for mode reflect; for other modes and lower levels, a GATHER on each axis."""
    known = ("reflect", "edge", "wrap")
    n.require(mode in known, Reason.ATTRIBUTE, f"mode is {mode!r}; ONNX has {', '.join(known)}")
    if mode == "reflect" and 0 < x.rank <= MAX_RANK and min(map(min, paddings)) >= 0:
        rows = Constant.of(np.array(paddings, np.int32))
        call = apply(MIRROR_PAD, x, paddings=rows, mode=_REFLECT, out=y)
        within = all(max(p) < size for p, size in zip(paddings, x.shape, strict=True))
        if within and n.supports(call):
            yield call
            return
    yield from _gathered(n, x, paddings, mode, y)


def _gathered(n: Node, x: Value, paddings: Paddings, mode: str, y: Value) -> Iterator[Call]:
    shape = list(x.shape)
    axes = [axis for axis, padding in enumerate(paddings) if any(padding)]
    if not axes:
        yield from reshape(n, x, y)
    for axis in axes:
        places = _source_indexes(shape[axis], paddings[axis], mode)
        seen = sizes_around(shape, axis) if x.rank > MAX_RANK or len(shape) > MAX_RANK else None
        part = x if seen is None else (yield from reshaped(n, x, seen))
        shape[axis] = len(places)
        last = axis == axes[-1]
        target = shape if seen is None else sizes_around(shape, axis)
        result = output_or_temp(n, y, target) if last else n.temp(x, target)
        yield apply(
            GATHER, part, axis=axis if seen is None else 1, indices=int32(places), out=result
        )
        x = result
    if axes:
        yield from write_output(n, x, y)


def _source_indexes(size: int, padding: tuple[int, int], mode: str) -> list[int]:
    """Return the source index of each output element along an axis; negative pads crop first."""
    before, after = padding
    added = (max(0, before), max(0, after))
    found: list[int] = np.pad(_kept(size, padding), added, mode=mode).tolist()  # type: ignore[call-overload]
    return found
