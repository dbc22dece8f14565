"""Operators whose results are known at compile time: Shape, Size, EyeLike, Range, ConstantOfShape.

Their results are stored as constants of the NNAPI model and copied to the output at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ep_nnapi.graph.value import Constant, only_element
from ep_nnapi.lowering.call import Call
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.operators.lib.emit import full, narrow, reshape
from ep_nnapi.operators.lib.node import Node, op


def folded_outputs(n: Node) -> Iterator[Call]:
    """Emit the outputs of a constant-folded node as copies of constants.

    An output without elements needs no operation: the nodes that read it are folded as well.
    """
    for i, y in enumerate(n.node.outputs):
        if y is not None and y.constant is not None and 0 not in y.constant.shape:
            yield from _copy_constant(n, y.constant.array, i)


def _copy_constant(n: Node, array: Array, output: int = 0) -> Iterator[Call]:
    """Emit output number `output` as a copy of `array`; raise Reject(DTYPE) if it does not fit."""
    y = replace(narrow(n.output(output)), constant=None)
    numbers = array.astype(y.dtype.numpy)
    n.require(
        bool(np.array_equal(numbers, array)),
        Reason.DTYPE,
        f"{y.name} has numbers that {y.dtype.name} does not hold",
    )
    stored = n.value("numbers", Constant.of(numbers.reshape(y.shape or (1,))))
    yield from reshape(n, replace(stored, quantization=y.quantization), y)


@op("Shape", since=1)
def shape(n: Node) -> Iterator[Call]:
    """The sizes of x from axis `start` (default 0) to `end` (default: all).

    Source: ONNX Shape-1 to Shape-25; NDK ANEURALNETWORKS_CAST.
    """
    sizes = n.input(0).shape
    start, end = n.integer("start", 0), n.integer("end", len(sizes))
    yield from _copy_constant(n, np.array(sizes[start:end], np.int64))


@op("Size", since=1)
def size(n: Node) -> Iterator[Call]:
    """The number of elements of x.

    Source: ONNX Size-1 to Size-25; NDK ANEURALNETWORKS_CAST.
    """
    yield from _copy_constant(n, np.array(n.input(0).size, np.int64))


@op("EyeLike", since=9)
def eye_like(n: Node) -> Iterator[Call]:
    """A matrix as large as x, with ones along its `k`-th diagonal.

    Source: ONNX EyeLike-9, EyeLike-22; NDK ANEURALNETWORKS_RESHAPE.
    """
    y, (rows, columns) = narrow(n.output()), n.input(0).shape
    k = max(-rows, min(n.integer("k", 0), columns))
    to = y.dtype.numpy
    matrix = Constant((rows, columns), y.dtype, lambda: np.eye(rows, columns, k, to))
    yield from reshape(n, n.value("numbers", matrix), y)


@op("Range", since=11)
def numbers(n: Node) -> Iterator[Call]:
    """The numbers from `start` to `limit` (exclusive) in steps of `delta`: all constant.

    Source: ONNX Range-11; NDK ANEURALNETWORKS_RESHAPE.
    """
    start, _, delta = (n.array(i).reshape(()) for i in range(3))
    count = n.output().size
    yield from _copy_constant(n, start + np.arange(count, dtype=start.dtype) * delta)


@op("ConstantOfShape", since=9)
def constant_of_shape(n: Node) -> Iterator[Call]:
    """A uniform tensor of `value` (default: 0 as a float) in the inferred shape.

    Source: ONNX ConstantOfShape-9 to ConstantOfShape-25; NDK ANEURALNETWORKS_FILL.
    """
    y, given = narrow(n.output()), n.node.attributes.get("value")
    number = only_element(given, "value") if isinstance(given, Constant) else 0.0
    yield from reshape(n, (yield from full(n, number, y.shape, y.dtype)), y)
