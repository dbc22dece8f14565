"""ONNX nodes as an alternative: a model whose constants are those of the container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ep_nnapi.epcontext.alternatives import Alternative, Linked
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.lowering.border import Border
from ep_nnapi.nnapi.array import Array

LOCATION = "weights"
"""Where the external data of the model are: the container's weights."""

INSIDE = 64
"""Constants of at most so many bytes are in the model: naming others takes as many."""

_MOST_AXES = 5  # 120 orders of axes


def onnx_program(
    name: str, model: ModelProto, border: Border, known: Iterable[Array] = ()
) -> Alternative:
    """Returns a model as an alternative that reads its constants from the container's weights.

    known   constants that are there anyway, as bytes: one whose elements are in the order of other
            axes is read in that order, by a Transpose that ONNX Runtime computes once, when it
            loads the model
    Names of nodes and of tensors inside are replaced by short ones.
    """
    short = ModelProto()
    short.CopyFrom(model)
    _shorten(short)
    by_size: dict[int, list[Array]] = {}
    for array in known:
        by_size.setdefault(array.size, []).append(array)
    arrays: list[Array] = []
    outside: list[TensorProto] = []
    transposes: list[NodeProto] = []
    for tensor in short.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.nbytes <= INSIDE or array.dtype.hasobject:
            continue
        held, perm = _held(array, by_size.get(array.nbytes, ()))
        if perm is not None:
            back = [int(i) for i in np.argsort(perm)]
            source = f"{tensor.name}^"
            transposes.append(helper.make_node("Transpose", [source], [tensor.name], perm=back))
            tensor.name = source
            tensor.dims[:] = [array.shape[i] for i in perm]
        arrays.append(held)
        outside.append(tensor)
    nodes = [*transposes, *short.graph.node]
    del short.graph.node[:]
    short.graph.node.extend(nodes)

    def link(_at: int, offsets: Sequence[int]) -> bytes:
        for tensor, held, offset in zip(outside, arrays, offsets, strict=True):
            _place(tensor, offset, held.size)
        return bytes(short.SerializeToString())

    size = len(link(0, [0] * len(outside)))
    linked = Linked(tuple(arrays), size, link)
    return Alternative(name, AlternativeKind.ONNX, border, linked=linked)


def external_places(alternative: Alternative) -> Iterator[tuple[int, int]]:
    """Yields offsets and sizes of the constants that a model which was read has in the weights."""
    if alternative.data is None:
        return
    model = ModelProto.FromString(alternative.data.tobytes())
    for tensor in model.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            yield int(entries["offset"]), int(entries["length"])


def _place(tensor: TensorProto, offset: int, size: int) -> None:
    for one in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(one)
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", LOCATION), ("offset", offset), ("length", size)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def _held(array: Array, known: Sequence[Array]) -> tuple[Array, tuple[int, ...] | None]:
    """Returns the bytes of a constant, and the order of its axes if another constant has it so."""
    own = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    alike = [each for each in known if _same_bytes(each, own)]
    if any(np.array_equal(each, own) for each in alike):
        return own, None
    for perm in permutations(range(array.ndim)) if alike and array.ndim <= _MOST_AXES else ():
        turned = np.ascontiguousarray(array.transpose(perm)).reshape(-1).view(np.uint8)
        for each in alike:
            if np.array_equal(each, turned):
                return each, perm
    return own, None


def _same_bytes(one: Array, other: Array) -> bool:
    """True if one may be the other in another order: of few bytes all, else their sums."""
    return int(one.sum(dtype=np.uint64)) == int(other.sum(dtype=np.uint64))


def _shorten(model: ModelProto) -> None:
    """Replaces names that nothing outside of the graph knows, in the main graph alone."""
    graph = model.graph
    kept = {v.name for v in (*graph.input, *graph.output)}
    kept |= {name for node in graph.node for name in _inner_names(node)} | {""}
    new: dict[str, str] = {}
    numbers = (f"{n:x}" for n in range(1 << 31))
    unused: Iterator[str] = (n for n in numbers if n not in kept)
    for tensor in graph.initializer:
        tensor.name = _renamed(tensor.name, kept, new, unused)
    for node in graph.node:
        node.name, node.doc_string = "", ""
        node.input[:] = [_renamed(name, kept, new, unused) for name in node.input]
        node.output[:] = [_renamed(name, kept, new, unused) for name in node.output]
    del graph.value_info[:]
    del model.metadata_props[:]


def _renamed(name: str, kept: set[str], new: dict[str, str], unused: Iterator[str]) -> str:
    if name in kept:
        return name
    if name not in new:
        new[name] = next(unused)
    return new[name]


def _inner_names(node: NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from (*inner.input, *inner.output)
                yield from _inner_names(inner)
            yield from (v.name for v in (*graph.input, *graph.output, *graph.initializer))
