"""MatMul, Gemm and Einsum, which is lowered to reductions, transposes and matrix products."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from math import prod
from typing import TypeAlias

from ep_nnapi.graph.value import Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.immutable import frozen
from ep_nnapi.operators.lib.matmul import affine, product
from ep_nnapi.operators.lib.movement import transpose, transposed
from ep_nnapi.operators.lib.node import Computed, Node, broadcast_shape, op
from ep_nnapi.operators.lib.reduction import reduce


@op("MatMul", since=1)
def matmul(n: Node) -> Iterator[Call]:
    """Products of matrices in the last two dimensions, what is before broadcast.

    a [..., M, K] or [K], b [..., K, N] or [K]
    """
    a, b, y = n.input(0), n.input(1), n.output()
    n.require(min(a.rank, b.rank) > 0, Reason.RANK, f"{a.name} or {b.name} is a scalar")
    _require_equal_inner_sizes(n, a.shape[-1], b.shape[-2 if b.rank > 1 else 0])
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2] if a.rank > 1 else 1
    columns = b.shape[-1] if b.rank > 1 else 1
    left = a if a.rank > 1 else (yield from n.reshaped(a, (1, a.size)))
    right = b if b.rank > 1 else (yield from n.reshaped(b, (b.size, 1)))
    shape = (*batch, rows, columns)
    result = (*batch, *(rows,) * (a.rank > 1), *(columns,) * (b.rank > 1))
    detail = f"{y.name} is declared as {list(y.shape)}; the product has shape {list(result)}"
    n.require(y.shape == result, Reason.SHAPE, detail)
    computed = y if shape == y.shape else n.output_or_temp(y, shape)
    yield from product(n, left, right, computed)
    yield from n.write_output(computed, y)


@op("Gemm", since=7)
def gemm(n: Node) -> Iterator[Call]:
    """Alpha a b + beta c as a fully connected layer; both factors in the constants where they can.

    a [M, K] (transA: [K, M]), b [K, N] (transB: [N, K]), c broadcast to [M, N]
    """
    a, b, y = n.input(0), n.input(1), n.output()
    for x in (a, b):
        n.require(x.rank == 2, Reason.RANK, f"{x.name} has rank {x.rank}; Gemm multiplies matrices")
    of_a, of_b = 0 if n.integer("transA", 0) else 1, 1 if n.integer("transB", 0) else 0
    _require_equal_inner_sizes(n, a.shape[of_a], b.shape[of_b])
    if n.has(2):  # ONNX's shape inference does not check it
        c = n.input(2)
        detail = f"{c.name} {list(c.shape)} does not broadcast to {list(y.shape)}"
        n.require(broadcast_shape(c.shape, y.shape) == y.shape, Reason.SHAPE, detail)
    yield from affine(n, y)


def _require_equal_inner_sizes(n: Node, of_a: int, of_b: int) -> None:
    a, b = n.input(0).name, n.input(1).name
    n.require(
        of_a == of_b, Reason.SHAPE, f"the inner sizes of {a} and {b} differ: {of_a} and {of_b}"
    )


_ELLIPSIS = "..."
_ELLIPSIS_LABELS = "αβγδεζηθ"
"""Labels for the axes of an ellipsis, the last axis first: letters that ONNX does not allow."""


@frozen
class Term:
    """An operand of Einsum: a tensor and one label for each of its axes."""

    value: Value
    labels: str

    def size(self, labels: str) -> int:
        """Return the product of the sizes of the axes with these labels."""
        return prod(self.value.shape[self.labels.index(label)] for label in labels)

    def having(self, others: Collection[str]) -> str:
        """Return the term's labels that are in `others`, in order."""
        return "".join(label for label in self.labels if label in others)

    def lacking(self, others: Collection[str]) -> str:
        """Return the term's labels that are not in `others`, in order."""
        return "".join(label for label in self.labels if label not in others)


ComputedTerm: TypeAlias = Generator[Call, None, Term]


@op("Einsum", since=12)
def einsum(n: Node) -> Iterator[Call]:
    """Pairwise products of tensors, summed over the labels that the result does not have.

    A label that occurs twice in one tensor (a diagonal) is rejected.
    """
    y, (terms, result) = n.output(), _parsed(n)
    rest = []
    for term in terms:
        rest.append((yield from _without_ones(n, term)))
    total = rest.pop(0)
    while rest:
        factor = rest.pop(0)
        kept = set(result).union(*(t.labels for t in rest))
        total = yield from _product(n, total, factor, kept, None if rest else result)
    total = yield from _summed(n, total, result)
    if total.value is y:
        return
    order = [total.labels.index(label) for label in result if label in total.labels]
    if order == sorted(order):
        yield from n.reshape(total.value, y)
        return
    if y.shape == tuple(total.value.shape[i] for i in order):
        yield from transpose(n, total.value, order, y)
    else:
        yield from n.reshape((yield from transposed(n, total.value, order)), y)


def _parsed(n: Node) -> tuple[list[Term], str]:
    """Parse `equation`: return the terms and the result's labels, with ellipses expanded."""
    left, arrow, right = n.text("equation").replace(" ", "").partition("->")
    given = left.split(",")
    values = n.inputs
    fits = len(given) == len(values)
    n.require(fits, Reason.ATTRIBUTE, f"equation has {len(given)} terms for {len(values)} inputs")
    terms = [Term(v, _without_ellipsis(n, v, g)) for v, g in zip(values, given, strict=True)]
    _require_equal_sizes(n, terms)
    behind = max((t.having(_ELLIPSIS_LABELS) for t in terms), key=len)
    if arrow:
        return terms, right.replace(_ELLIPSIS, behind)
    every = "".join(t.labels for t in terms)
    once = sorted({c for c in every if every.count(c) == 1 and c not in _ELLIPSIS_LABELS})
    return terms, behind + "".join(once)


def _require_equal_sizes(n: Node, terms: Sequence[Term]) -> None:
    """Raise Reject(SHAPE) unless all axes of a label have one size, or 1, which broadcasts."""
    sizes = dict[str, int]()
    for term in terms:
        for label, size in zip(term.labels, term.value.shape, strict=True):
            known = sizes.setdefault(label, size) if size != 1 else size
            detail = f"{term.value.name} has size {size} along {label}, another term {known}"
            n.require(known == size, Reason.SHAPE, detail)


def _without_ellipsis(n: Node, value: Value, labels: str) -> str:
    """Return `labels` with the ellipsis expanded: one label for each axis of `value`."""
    before, ellipsis, after = labels.partition(_ELLIPSIS)
    count = value.rank - len(before) - len(after)
    detail = f"{value.name} has rank {value.rank}, the equation calls it {labels}"
    n.require(0 <= count <= (len(_ELLIPSIS_LABELS) if ellipsis else 0), Reason.ATTRIBUTE, detail)
    found = before + _ELLIPSIS_LABELS[:count][::-1] + after
    detail = f"{labels} takes a diagonal of {value.name}; compute it before"
    n.require(len(set(found)) == len(found), Reason.ATTRIBUTE, detail)
    return found


def _without_ones(n: Node, term: Term) -> ComputedTerm:
    """Return the term without its axes of size 1, which broadcast."""
    shape = [size for size in term.value.shape if size != 1]
    pairs = zip(term.labels, term.value.shape, strict=True)
    labels = "".join(label for label, size in pairs if size != 1)
    if len(labels) == len(term.labels):
        return term
    return Term((yield from _reshaped(n, term.value, shape)), labels)


def _reshaped(n: Node, x: Value, shape: Sequence[int]) -> Computed:
    """Return `x` reshaped to `shape`; a scalar's empty shape becomes (1,)."""
    return (yield from n.reshaped(x, tuple(shape) or (1,)))


def _summed(n: Node, term: Term, kept: Collection[str]) -> ComputedTerm:
    """Return the term summed over the labels that are not in `kept`."""
    axes = [i for i, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    shape = [size for i, size in enumerate(term.value.shape) if i not in axes]
    out = n.temp(term.value, shape)
    yield from reduce(n, spec.REDUCE_SUM, term.value, axes, out, keep=False)
    return Term(out, term.having(kept))


def _product(
    n: Node, left: Term, right: Term, kept: Collection[str], result: str | None
) -> ComputedTerm:
    """Return the product of two terms, summed over the labels that are not in `kept`.

    result   the labels of the node's output, if this is the last product
    """
    left = yield from _summed(n, left, {*kept, *right.labels})
    right = yield from _summed(n, right, {*kept, *left.labels})
    shared = left.having(right.labels)
    batch = "".join(c for c in shared if c in kept)
    inner = "".join(c for c in shared if c not in kept)
    rows, columns = left.lacking(shared), right.lacking(shared)
    a, adj_x = yield from _matrices(n, left, (batch, rows, inner))
    b, adj_y = yield from _matrices(n, right, (batch, inner, columns))
    labels = batch + rows + columns
    shape = (*_group(left, batch), left.size(rows), right.size(columns))
    last = result == labels and n.output().shape == shape
    out = n.output() if last else n.temp(left.value, shape)
    if inner:
        yield from product(n, a, b, out, adj_x=adj_x, adj_y=adj_y)
    else:
        yield apply(spec.MUL, a, b, out=out)
    apart = [left.size(c) if c in left.labels else right.size(c) for c in labels]
    return Term(out if last else (yield from _reshaped(n, out, apart)), labels)


def _group(term: Term, labels: str) -> tuple[int, ...]:
    """Return the size of the axes with these labels merged into one; () for no labels."""
    return (term.size(labels),) if labels else ()


def _matrices(
    n: Node, term: Term, groups: tuple[str, str, str]
) -> Generator[Call, None, tuple[Value, bool]]:
    """Return the term as matrices [batch, rows, columns], and True if these are transposed.

    They stay transposed where the term's axes are in that order already.
    """
    batch, rows, columns = groups
    swapped = term.labels == batch + columns + rows and rows != "" and columns != ""
    labels = term.labels if swapped else batch + rows + columns
    x = yield from transposed(n, term.value, [term.labels.index(label) for label in labels])
    matrix = (term.size(rows), term.size(columns))
    shape = (*_group(term, batch), *(matrix[::-1] if swapped else matrix))
    return (yield from _reshaped(n, x, shape)), swapped
