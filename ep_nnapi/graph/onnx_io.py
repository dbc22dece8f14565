"""ONNX model files: subgraphs, edits in place, the size limit; nodes of a graph as a model."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper

from ep_nnapi.graph.graph import Attribute, GraphNode
from ep_nnapi.graph.value import Constant, Dim, Value
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.sizes import now

_T = TypeVar("_T")
Loadable: TypeAlias = str | PathLike[str] | bytes
"""A path or the bytes of a model."""

ONNX_DOMAINS = ("", "ai.onnx")
"""The domain of ONNX's own operators, by both of its names."""
EXTERNAL_DATA_THRESHOLD = 1 << 30
"""Bytes above which weights become external data: Protocol Buffers are limited to 2 GB."""


def inner_graphs(node: NodeProto) -> list[GraphProto]:
    """Returns the graphs inside a node: bodies and branches."""
    return [g for a in node.attribute for g in ((a.g,) if a.HasField("g") else a.graphs)]


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yields the graph and all its subgraphs, recursively."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from graphs(inner)


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Yields the nodes of a graph and of its subgraphs."""
    for each in graphs(graph):
        yield from each.node


def open_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """Returns the inputs that no initializer gives a value."""
    constants = {t.name for t in graph.initializer}
    return [i for i in graph.input if i.name not in constants]


def replace_all(field: MutableSequence[_T], items: Iterable[_T]) -> None:
    """Replaces what is in a repeated field, of which `items` may be a part."""
    kept = list(items)
    del field[:]
    field.extend(kept)


def drop_constant_inputs(graph: GraphProto) -> None:
    """Makes initializers constants that are inputs too."""
    replace_all(graph.input, open_inputs(graph))


def opset_of(model: ModelProto) -> int:
    """Returns the version of ONNX's own operators that the model uses."""
    return next((o.version for o in model.opset_import if o.domain in ONNX_DOMAINS), 1)


def static_sizes(info: ValueInfoProto) -> tuple[int, ...] | None:
    """Returns the sizes of a tensor; None if its rank or one of them is not known."""
    kind = info.type.tensor_type
    known = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
    return tuple(d.dim_value for d in kind.shape.dim) if known else None


def save(model: ModelProto, path: Path) -> None:
    """Writes the model to a path, its weights beside it if they are large."""
    large = model.ByteSize() > EXTERNAL_DATA_THRESHOLD
    onnx.save_model(model, str(path), save_as_external_data=large, location=f"{path.stem}.weights")


def make_dense(graph: GraphProto) -> None:
    """Replaces sparse initializers, of the graph and of its subgraphs, with others that are not."""
    for each in graphs(graph):
        for sparse in each.sparse_initializer:
            values, places = map(numpy_helper.to_array, (sparse.values, sparse.indices))
            array = np.zeros([*sparse.dims], values.dtype)
            if places.ndim == 1:  # in the flattened tensor
                array.flat[places] = values
            else:
                array[(*places.T,)] = values
            each.initializer.append(numpy_helper.from_array(array, sparse.values.name))
        del each.sparse_initializer[:]


def mentions(model: Loadable, *texts: bytes) -> bool:
    """True if a model's file or bytes have one of the texts: names are stored as plain text."""
    if isinstance(model, bytes):
        return any(text in model for text in texts)
    path = Path(model)
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(text) >= 0 for text in texts)


def read_model(model: Loadable, *, weights: bool = True) -> ModelProto | None:
    """Returns the ONNX model of a file or of bytes; None if it is none.

    weights   False: external data of a file are not read
    """
    try:
        if isinstance(model, bytes):
            proto = onnx.load_from_string(model)
        else:
            proto = onnx.load(model, load_external_data=weights)
    except (DecodeError, UnicodeDecodeError, OSError):
        return None
    return proto if proto.HasField("graph") else None


@contextmanager
def edited(path: Path) -> Iterator[ModelProto]:
    """Context manager to edit an .onnx file in place; external data is neither read nor moved."""
    proto = onnx.load(str(path), load_external_data=False)
    yield proto
    onnx.save(proto, str(path))


@contextmanager
def temporary(out: Path, suffix: str) -> Iterator[Path]:
    """Context manager of a path like `out` with another suffix; deletes the file on exit."""
    path = out.with_suffix(suffix)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def model_of(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opsets: Mapping[str, int],
) -> ModelProto:
    """Returns the nodes as an ONNX model; constants are loaded and become initializers."""
    read = (v for n in nodes for v in n.inputs if v is not None)
    constants = {v.name: v.constant for v in read if v.constant is not None}
    tensors = [numpy_helper.from_array(c.array, name) for name, c in constants.items()]
    ends = [_value_info(v) for v in inputs], [_value_info(v) for v in outputs]
    graph = helper.make_graph(_named_once(nodes), "cluster", *ends, tensors)
    domains = {n.domain for n in nodes} | {""}
    imports = [helper.make_opsetid(d, opsets.get(d, 1)) for d in sorted(domains)]
    # the lowest IR version that the opsets allow, so that older runtimes can load the model
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _named_once(nodes: Iterable[GraphNode]) -> list[NodeProto]:
    """The nodes; of several with one name all but the first are unnamed, as ONNX Runtime asks.

    A node that has no name goes by its output, which another node may be named after.
    """
    found: dict[str, NodeProto] = {}
    protos = [node_of(node) for node in nodes]
    for proto in protos:
        if found.setdefault(proto.name, proto) is not proto:
            proto.name = ""
    return protos


def numbers_of(value: Value) -> tuple[Dim, ...] | None:
    """The dimensions of a value with the numbers that its sizes are now.

    Protocol Buffers' implementation in Python would compare a `Size` with limits: conditions.
    """
    return value.dims and tuple([now(d) if isinstance(d, int) else d for d in value.dims])


def type_proto(value: Value) -> TypeProto:
    """The type of a value, with these dimensions."""
    return helper.make_tensor_type_proto(int(value.dtype), numbers_of(value))


def node_of(node: GraphNode) -> NodeProto:
    """Returns the node as a NodeProto."""
    proto = helper.make_node(
        node.op_type,
        [v.name if v is not None else "" for v in node.inputs],
        [v.name if v is not None else "" for v in node.outputs],
        node.name,
        domain=node.domain,
    )
    proto.attribute.extend(
        helper.make_attribute(name, _attribute(value))
        for name, value in node.attributes.items()
        if value != ()  # the type of an empty list is unknown; omitting it has the same effect
    )
    return proto


def _attribute(value: Attribute) -> object:
    return numpy_helper.from_array(value.array) if isinstance(value, Constant) else value


def _value_info(value: Value) -> ValueInfoProto:
    return helper.make_tensor_value_info(value.name, int(value.dtype), value.dims)


def model_of_ranks(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opsets: Mapping[str, int],
    ranks: Mapping[str, int],
) -> ModelProto:
    """As `model_of`, for inputs of any sizes and, where they have a shape, of these ranks.

    ONNX Runtime loads no Shape of some axes whose input has no rank. What a file declares of an
    intermediate may be wrong.
    """
    ranked = [replace(v, dims=None if v.dims is None else (None,) * ranks[v.name]) for v in inputs]
    return model_of(nodes, ranked, outputs, opsets)


def without_shapes(values: Iterable[Value]) -> list[Value]:
    """The values without shapes, for a model whose inputs and outputs may have any shape."""
    return [replace(v, dims=None) for v in values]
