"""ONNX nodes as an alternative: a model whose constants are those of the container."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ep_nnapi.epcontext.alternatives import Alternative, Linked
from ep_nnapi.epcontext.layout import AlternativeKind
from ep_nnapi.graph.onnx_io import ONNX_DOMAINS, all_nodes, graphs, replace_all
from ep_nnapi.lowering.border import Border
from ep_nnapi.nnapi.array import Array

LOCATION = "weights"
"""Where the external data of the model are: the container's weights."""

INSIDE = 64
"""Constants of at most so many bytes are in the model: naming others takes as many."""

_MOST_AXES = 5  # 120 orders of axes
_MOST_PIECES = 32


def onnx_program(
    name: str, model: ModelProto, border: Border, known: Iterable[Array] = (), folder: str = ""
) -> Alternative:
    """Returns a model as an alternative that reads its constants from the container's weights.

    known   constants that are there anyway, as bytes: one whose elements are in the order of other
            axes, or that is several others in a row, is read from there, and made by nodes that
            ONNX Runtime computes once, when it loads the model
    folder  of the model's own external data
    Names of nodes and of tensors inside are replaced by short ones.
    """
    short = deepcopy(model)
    _shorten(short)
    known, by_size = [*known], dict[int, list[Array]]()
    for array in known:
        by_size.setdefault(array.size, []).append(array)
    arrays: list[Array] = []
    outside: list[TensorProto] = []
    made: list[NodeProto] = []
    for tensor in [*short.graph.initializer]:
        array = numpy_helper.to_array(tensor, folder)
        if array.nbytes <= INSIDE or array.dtype.hasobject:
            continue
        packed = tensor.data_type in _PACKED
        own = _stored(tensor) if packed else _flat(array)
        alike, source = by_size.get(own.size, ()), None
        if not packed and not any(np.array_equal(each, own) for each in alike):
            source = _turned(array, own, alike) or _pieces(array, own, known)
        if source is None:
            arrays.append(own)
            outside.append(tensor)
            continue
        arrays += source.held
        outside += _replaced(short.graph, tensor, source)
        made += source.nodes(tensor.name, array.shape)
    replace_all(short.graph.node, [*made, *short.graph.node])

    def link(offsets: Sequence[int]) -> bytes:
        for tensor, held, offset in zip(outside, arrays, offsets, strict=True):
            _place(tensor, offset, held.size)
        return bytes(short.SerializeToString())

    linked = Linked(tuple(arrays), link)
    return Alternative(name, AlternativeKind.ONNX, border, linked=linked)


def external_places(alternative: Alternative) -> Iterator[tuple[int, int]]:
    """Yields offsets and sizes of the constants that a model which was read has in the weights."""
    if alternative.data is None:
        return
    model = ModelProto.FromString(alternative.data)
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
        tensor.external_data.add(key=key, value=str(value))


@dataclass(frozen=True, slots=True)
class _Source:
    """A constant as other constants have it: one in another order of axes, or several in a row.

    view   the shape that it is seen in, of which some axes may be parts of one
    perm   axis i of the other is axis `perm[i]` of that; empty for several
    """

    held: tuple[Array, ...]
    view: tuple[int, ...] = ()
    perm: tuple[int, ...] = ()

    def nodes(self, name: str, shape: tuple[int, ...]) -> Iterator[NodeProto]:
        """Yields nodes that make the constant, which ONNX Runtime computes when it loads them."""
        whole = self.view == shape
        joined = name if whole else f"{name}+"
        parts = [f"{name}^{i}" for i in range(len(self.held))]
        if self.perm:
            back = [int(i) for i in np.argsort(self.perm)]
            yield helper.make_node("Transpose", parts, [joined], perm=back)
        else:
            yield helper.make_node("Concat", parts, [joined], axis=0)
        if not whole:
            yield helper.make_node("Reshape", [joined, f"{name}*"], [name])


def _replaced(graph: GraphProto, tensor: TensorProto, source: _Source) -> Iterator[TensorProto]:
    """Removes a constant; adds and yields the others that it is made of."""
    shape, name, dtype = tuple(tensor.dims), tensor.name, tensor.data_type
    graph.initializer.remove(tensor)
    tensor.name = name  # of which the caller has the object still
    if source.view != shape:
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{name}*"))
    size = helper.tensor_dtype_to_np_dtype(dtype).itemsize
    for i, held in enumerate(source.held):
        part = graph.initializer.add(name=f"{name}^{i}", data_type=dtype)
        part.dims.extend([source.view[axis] for axis in source.perm] or [held.size // size])
        yield part


_PACKED = (TensorProto.INT4, TensorProto.UINT4)
"""Types of which a byte holds two numbers."""


def _stored(tensor: TensorProto) -> Array:
    """The bytes of a packed tensor, whose external data has been read."""
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    return np.array(tensor.int32_data, np.uint8)


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _turned(array: Array, own: Array, known: Sequence[Array]) -> _Source | None:
    """Another constant in another order of axes; None if there is none."""
    total = own.sum(dtype=np.uint64)
    alike = [each for each in known if each.sum(dtype=np.uint64) == total]
    for view in _views(array.shape) if alike else ():
        for perm in permutations(range(len(view))):
            turned = array.reshape(view).transpose(perm)
            row = turned[(0,) * (len(view) - 1)].tobytes()
            for each in alike:
                if each[: len(row)].tobytes() == row and np.array_equal(each, _flat(turned)):
                    return _Source((each,), view, perm)
    return None


def _views(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yields the shape, and those with an axis of a matrix in two, as before a Flatten."""
    if 0 < len(shape) <= _MOST_AXES:
        yield shape
    for axis, size in enumerate(shape if len(shape) == 2 else ()):
        for part in range(2, size // 2 + 1):
            if size % part == 0:
                yield (*shape[:axis], part, size // part, *shape[axis + 1 :])


def _pieces(array: Array, own: Array, known: Sequence[Array]) -> _Source | None:
    """Constants that are this one if they stand in a row, as the gates of an LSTM do."""
    found: list[Array] = []
    at, smaller = 0, [each for each in known if INSIDE < each.size < own.size]
    fitting = [each for each in smaller if each.size % array.itemsize == 0]
    starts: dict[bytes, list[Array]] = {}
    for each in sorted(fitting, key=len, reverse=True):
        starts.setdefault(each[:INSIDE].tobytes(), []).append(each)
    while at < own.size and len(found) < _MOST_PIECES:
        near = starts.get(own[at : at + INSIDE].tobytes(), ())
        piece = next((p for p in near if np.array_equal(p, own[at : at + p.size])), None)
        if piece is None:
            return None
        found.append(piece)
        at += piece.size
    return _Source(tuple(found)) if at == own.size else None


def _shorten(model: ModelProto) -> None:
    """Replaces names that nothing outside of the graph knows, in the main graph alone.

    What says nothing is removed: default values, and operator sets that no node is of, as ONNX
    Runtime's optimizer writes all that it knows.
    """
    graph, *inner = graphs(model.graph)
    kept = {v.name for each in (graph, *inner) for v in (*each.input, *each.output)} | {""}
    kept |= {tensor.name for each in inner for tensor in each.initializer}
    kept |= {name for each in inner for node in each.node for name in (*node.input, *node.output)}
    unused = (name for name in (f"{n:x}" for n in range(1 << 31)) if name not in kept)
    new = defaultdict[str, str](lambda: next(unused), {name: name for name in kept})
    for tensor in graph.initializer:
        tensor.name = new[tensor.name]
    for node in graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        node.input[:] = [new[name] for name in node.input]
        node.output[:] = [new[name] for name in node.output]
    del graph.value_info[:]
    del model.metadata_props[:]
    versions = {each.domain: each.version for each in model.opset_import}
    every = [*all_nodes(graph)]
    for node in every:
        _drop_defaults(node, versions.get(node.domain, 0))
    used = {*ONNX_DOMAINS, *(node.domain for node in every)}
    replace_all(model.opset_import, [each for each in model.opset_import if each.domain in used])


def _drop_defaults(node: NodeProto, version: int) -> None:
    if not onnx.defs.has(node.op_type, version, node.domain):
        return
    known = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
    defaults = {name: given.default_value for name, given in known.items()}
    replace_all(node.attribute, [a for a in node.attribute if a != defaults.get(a.name)])
