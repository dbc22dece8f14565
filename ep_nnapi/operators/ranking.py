"""ArgMax, ArgMin and TopK."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ep_nnapi.graph.value import MAX_RANK, DType, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.signature import OperationSpec
from ep_nnapi.operators.lib.movement import reversed_along, sizes_around, transposed
from ep_nnapi.operators.lib.node import Computed, Node, Operator, narrow, op


def arg_reduction(op_type: str, row: OperationSpec, which: str) -> Operator:
    """Return the operator for ArgMax or ArgMin, lowered to `row`."""

    def lower(n: Node) -> Iterator[Call]:
        x, y, axis = n.input(0), narrow(n.output()), n.axis(default=0)
        shape, at = (x.shape, axis) if x.rank <= MAX_RANK else (sizes_around(x.shape, axis), 1)
        seen = yield from n.reshaped(x, shape)
        result = n.output_or_temp(y, tuple(size for i, size in enumerate(shape) if i != at) or (1,))
        if n.integer("select_last_index", 0):
            mirrored = yield from reversed_along(n, seen, at)
            found = yield from n.compute(
                row, mirrored, axis=at, shape=result.shape, dtype=DType.INT32
            )
            yield from n.mirrored_indices(found, shape[at], result)
        else:
            yield apply(row, seen, axis=at, out=result)
        yield from n.write_output(result, y)

    doc = (
        f"Where the {which} element along `axis` is: the first of several, or the last with "
        f"`select_last_index`."
    )
    return Operator(op_type, "", 1, lower, doc)


TABLE = (
    arg_reduction("ArgMax", spec.ARGMAX, "greatest"),
    arg_reduction("ArgMin", spec.ARGMIN, "least"),
)


@op("TopK", since=1)
def top_k_1(n: Node) -> Iterator[Call]:
    """The `k` (attribute) greatest elements along `axis` and their indexes."""
    yield from _top_k(n, n.integer("k"))


@op("TopK", since=10)
def top_k_10(n: Node) -> Iterator[Call]:
    """The `k` greatest elements along `axis`, or least with `largest` 0, and their indexes.

    They are always sorted; equal elements are in the order of their indexes.
    """
    yield from _top_k(n, n.integer_at(1))


def _top_k(n: Node, k: int) -> Iterator[Call]:
    """Emit TOPK_V2 on the reversed axis.

    Of equal elements NNAPI returns the last first, but ONNX the first.
    """
    x, axis, least = n.input(0), n.axis(default=-1), n.integer("largest", 1) != 1
    shape, at = (x.shape, axis) if x.rank <= MAX_RANK else (sizes_around(x.shape, axis), 1)
    last = (*(i for i in range(len(shape)) if i != at), at)
    seen = yield from transposed(n, (yield from n.reshaped(x, shape)), last)
    ordered = (yield from _opposite(n, seen)) if least else seen
    mirrored = yield from reversed_along(n, ordered, len(shape) - 1)
    y, shape = n.output(0), (*seen.shape[:-1], k)
    as_found = seen is ordered and list(last) == sorted(last)
    values = n.output_or_temp(y, shape) if as_found else n.temp(seen, shape)
    places = n.temp(values, dtype=DType.INT32)
    yield apply(spec.TOPK_V2, mirrored, k=k, out=(values, places))
    back = [last.index(i) for i in range(len(shape))]
    if as_found:
        yield from n.write_output(values, y)
    else:
        found = (yield from _opposite(n, values)) if least else values
        yield from n.reshape((yield from transposed(n, found, back)), y)
    yield from _indexes(n, places, seen.shape[-1], back)


def _opposite(n: Node, x: Value) -> Computed:
    """Return `x` mapped to reverse order: -x, or for integers -1 - x, which cannot overflow."""
    if x.dtype is DType.INT32:
        return (yield from n.compute(spec.SUB, n.scalar(-1, x), x))
    return (yield from n.negative_of(x))


def _indexes(n: Node, places: Value, size: int, back: Sequence[int]) -> Iterator[Call]:
    """Emit output 1: positions in the reversed axis converted to indexes.

    They are transposed as floats, which represent them exactly.
    """
    y = narrow(n.output(1))
    shape = tuple(places.shape[p] for p in back)
    result = n.output_or_temp(y, shape)
    if list(back) == sorted(back):
        yield from n.mirrored_indices(places, size, result)
    else:
        numbers = n.temp(places, dtype=DType.FLOAT)
        yield from n.mirrored_indices(places, size, numbers)
        yield apply(spec.CAST, (yield from transposed(n, numbers, back)), out=result)
    yield from n.write_output(result, y)
