"""ScatterElements and ScatterND with constant indexes.

NNAPI has no scatter: the result is gathered from the concatenation of the data and the updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ep_nnapi.graph.value import Constant, Value
from ep_nnapi.lowering.call import Call, apply
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.nnapi.spec import CONCATENATION, GATHER
from ep_nnapi.operators.lib.emit import each, output_or_temp, reshaped, write_output
from ep_nnapi.operators.lib.flat_indices import element_positions, row_positions
from ep_nnapi.operators.lib.node import Node, op


@op("ScatterElements", since=11)
def scatter_elements(n: Node) -> Iterator[Call]:
    """The data with elements replaced where constant indexes say: gathered from data and updates.

    Source: ONNX ScatterElements-11 to -18; NDK ANEURALNETWORKS_GATHER.
    """
    yield from _elements(n)


@op("Scatter", since=9)
def scatter_9(n: Node) -> Iterator[Call]:
    """ScatterElements by its first name.

    Source: ONNX Scatter-9, Scatter-11; NDK ANEURALNETWORKS_GATHER.
    """
    yield from _elements(n)


def _elements(n: Node) -> Iterator[Call]:
    n.constant(1)
    x, index = n.input(0), n.input(1)
    fits = index.rank == x.rank and all(i <= s for i, s in zip(index.shape, x.shape, strict=True))
    n.require(
        fits, Reason.SHAPE, f"{index.name} has shape {list(index.shape)}, {x.name} {list(x.shape)}"
    )
    _require_updates(n, index.shape)
    places = yield from element_positions(n, x, index, n.axis(default=0))
    yield from _scattered(n, places, 1)


@op("ScatterND", since=11)
def scatter_nd(n: Node) -> Iterator[Call]:
    """The data with slices replaced where constant rows of indexes say.

    Source: ONNX ScatterND-11 to -18; NDK ANEURALNETWORKS_GATHER.
    """
    x, index = n.input(0), n.input(1)
    n.constant(1)
    n.require(index.rank > 0, Reason.RANK, f"{index.name} is a scalar")
    width = index.shape[-1]
    fits = 0 < width <= x.rank
    n.require(fits, Reason.SHAPE, f"{index.name} has {width} indexes for rank {x.rank}")
    _require_updates(n, (*index.shape[:-1], *x.shape[width:]))
    none = np.zeros(prod(index.shape[:-1]), np.int32)
    places = yield from row_positions(n, index, x.shape[:width], none)
    yield from _scattered(n, places, prod(x.shape[width:]))


def _require_updates(n: Node, shape: tuple[int, ...]) -> None:
    """Raise Reject(SHAPE) unless the updates (input 2) have the shape that the indexes demand."""
    updates = n.input(2)
    n.require(
        updates.shape == shape,
        Reason.SHAPE,
        f"{updates.name} has shape {list(updates.shape)}; the indexes demand {list(shape)}",
    )


def _scattered(n: Node, places: Value, row: int) -> Iterator[Call]:
    """Emit the data with its rows at `places` replaced by updates (input 2).

    Where several updates have the same place, the last one is used.
    """
    x, updates, y = n.input(0), n.input(2), n.output()
    reduction = n.text("reduction", "none")
    n.require(
        reduction == "none", Reason.ATTRIBUTE, f"reduction is {reduction!r}; NNAPI scatters nothing"
    )
    sources = np.arange(x.size // row, dtype=np.int32)
    if places.constant is not None:
        sources[places.constant.array.reshape(-1)] = np.arange(places.size) + len(sources)
    parts = yield from each(reshaped(n, part, (part.size // row, row)) for part in (x, updates))
    both = n.temp(x, (len(sources) + places.size, row))
    yield apply(CONCATENATION, inputs=parts, axis=0, out=both)
    result = output_or_temp(n, y, (len(sources), row))
    yield apply(GATHER, both, axis=0, indices=Constant.of(sources), out=result)
    yield from write_output(n, result, y)
