"""Memory-mapped access to the graphs of ORT-format model files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx import TensorProto
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs import InferenceSession
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Attribute import Attribute
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Node import Node
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.TensorDataType import TensorDataType


@contextmanager
def opened(path: Path) -> Iterator[Graph]:
    """Context manager of the graph of an .ort file, memory-mapped: only accessed parts are read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield InferenceSession.InferenceSession.GetRootAs(data).Model().Graph()


def operators(path: Path) -> frozenset[str]:
    """The operator types in the main graph of an .ort file, without subgraphs."""
    with opened(path) as graph:
        return frozenset(text(node.OpType()) for node in nodes(graph))


def unreadable(path: Path) -> str:
    """Name and type of a tensor whose type the format does not have; "" if there is none.

    ONNX Runtime writes such files and does not read them.
    """
    with opened(path) as graph:
        for inner in _graphs(graph):
            for tensor in map(inner.Initializers, range(inner.InitializersLength())):
                if tensor.DataType() not in _TYPES:
                    kind = TensorProto.DataType.Name(tensor.DataType())
                    return f"{text(tensor.Name())} of type {kind}"
    return ""


_TYPES = frozenset(kind for kind in vars(TensorDataType).values() if isinstance(kind, int))


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in nodes(graph):
        for _, inner in inner_graphs(node):
            yield from _graphs(inner)


def nodes(graph: Graph) -> Iterator[Node]:
    """Yields the graph's nodes in file order."""
    yield from map(graph.Nodes, range(graph.NodesLength()))


def outputs(of: Graph | Node) -> tuple[str, ...]:
    """The output names of a graph or a node."""
    return tuple(text(name) for name in map(of.Outputs, range(of.OutputsLength())))


def inner_graphs(node: Node) -> Iterator[tuple[str, Graph]]:
    """Yields a node's subgraphs, each with the name of its attribute."""
    attribute: Attribute
    for attribute in map(node.Attributes, range(node.AttributesLength())):
        if attribute.G() is not None:
            yield text(attribute.Name()), attribute.G()


def text(name: bytes) -> str:
    """Decodes a name, possibly invalid UTF-8, as the provider decodes ONNX Runtime's names."""
    return name.decode("utf-8", "surrogateescape")
