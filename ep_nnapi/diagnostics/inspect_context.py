"""Inspection of the compiled clusters in a model with EPContext nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, NodeProto

from ep_nnapi.epcontext.container import ContainerContent, unpack
from ep_nnapi.epcontext.layout import CONTEXT_DOMAIN, CONTEXT_OP, EP_SOURCE
from ep_nnapi.graph.onnx_io import graphs, mentions
from ep_nnapi.lowering.border import Crossing
from ep_nnapi.options.target import MAX_FEATURE_LEVEL


@dataclass(frozen=True, slots=True)
class Content:
    """One compiled cluster.

    feature_level    the lowest NNAPI feature level that can run it
    operations       number of NNAPI operations
    nodes            names of the ONNX nodes that they were lowered from
    inputs, outputs  as "name TYPE [shape]"
    weights          size in bytes
    file             file next to the model that holds the weights; None: the model itself
    """

    name: str
    feature_level: int
    operations: int
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: int
    file: str | None

    @property
    def row(self) -> tuple[str, ...]:
        """The fields as strings for a table."""
        weights = f"{self.weights} bytes in {self.file or 'the model'}"
        inputs, outputs, nodes = map("; ".join, (self.inputs, self.outputs, self.nodes))
        sizes = (str(self.feature_level), str(self.operations))
        return (self.name, *sizes, inputs, outputs, weights, nodes)

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return asdict(self)


def contents(model: str | os.PathLike[str] | bytes) -> tuple[Content, ...]:
    """Returns the compiled clusters of a model in graph order; empty for other models.

    Raises ModelError if a context is corrupt.
    """
    folder = None if isinstance(model, bytes) else Path(model).parent
    return tuple(
        _content(name, unpack(data, folder, MAX_FEATURE_LEVEL))
        for name, data in containers(_proto(model))
    )


def containers(proto: ModelProto) -> Iterator[tuple[str, bytes]]:
    """Yields name and container of each EPContext node of this provider, in graph order."""
    for graph in graphs(proto.graph):
        for node in graph.node:
            if _is_own(node):
                yield node.name, _attribute(node, "ep_cache_context")


def _proto(model: str | os.PathLike[str] | bytes) -> ModelProto:
    """Returns the parsed model, or an empty one if a fast text search finds no EPContext node."""
    if not isinstance(model, bytes):
        path = Path(model)
        if not path.is_file() or not mentions(path, CONTEXT_OP.encode()):
            return ModelProto()
        model = path.read_bytes()
    try:
        return onnx.load_model_from_string(model)
    except (DecodeError, UnicodeDecodeError):
        return ModelProto()  # an .ort file, or malformed; loading it reports errors


def _is_own(node: NodeProto) -> bool:
    kind = (node.domain, node.op_type) == (CONTEXT_DOMAIN, CONTEXT_OP)
    return kind and _attribute(node, "source") == EP_SOURCE.encode()


def _attribute(node: NodeProto, name: str) -> bytes:
    return next((a.s for a in node.attribute if a.name == name), b"")


def _content(name: str, context: ContainerContent) -> Content:
    model, border = context.lowered.model, context.lowered.border
    origins = dict.fromkeys(node for op in model.operations for node in op.origin)
    return Content(
        name,
        context.feature_level,
        len(model.operations),
        tuple(origins),
        _described(border.inputs),
        _described(border.outputs),
        context.weights.size,
        context.file,
    )


def _described(crossings: Sequence[Crossing]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{c.name} {c.dtype.name} {list(c.shape)}" for c in crossings))
