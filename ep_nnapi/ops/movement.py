"""Operators that move elements without computing."""

from __future__ import annotations

from collections.abc import Iterator

from ep_nnapi.nnapi.call import Call
from ep_nnapi.nnapi.spec import RESHAPE, TRANSPOSE
from ep_nnapi.ops.node import Node, int32, op


@op("Reshape", since=1, emits=(RESHAPE,))
def reshape(n: Node) -> Iterator[Call]:
    """The elements in another shape, which shape inference has settled (0 and -1 included).

    x, y   as many elements
    Source: ONNX Reshape-1 to Reshape-25; NDK ANEURALNETWORKS_RESHAPE.
    """
    x, y = n.input(0), n.output()
    yield RESHAPE(x, shape=int32(y.shape or (1,)), out=y)


@op("Flatten", since=1, emits=(RESHAPE,))
def flatten(n: Node) -> Iterator[Call]:
    """All dimensions before `axis` as one, the others as another.

    Source: ONNX Flatten-1 to Flatten-25; NDK ANEURALNETWORKS_RESHAPE.
    """
    yield from reshape.lower(n)


@op("Transpose", since=1, emits=(TRANSPOSE,))
def transpose(n: Node) -> Iterator[Call]:
    """Axes permuted; reversed without `perm`.

    Source: ONNX Transpose-1 to Transpose-25; NDK ANEURALNETWORKS_TRANSPOSE.
    """
    x = n.input(0)
    perm = n.integers("perm", range(x.rank)[::-1])
    yield TRANSPOSE(x, perm=int32(perm), out=n.output())
