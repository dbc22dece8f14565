"""ORT-format models as files: their graphs, read where they lie."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs import InferenceSession
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Attribute import Attribute
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Node import Node


@contextmanager
def opened(path: Path) -> Iterator[Graph]:
    """The graph of an .ort file, of which only what is looked at is read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield InferenceSession.InferenceSession.GetRootAs(data).Model().Graph()


def operators(path: Path) -> frozenset[str]:
    """The types of the nodes of an .ort file, inner graphs left out."""
    with opened(path) as graph:
        return frozenset(text(node.OpType()) for node in nodes(graph))


def nodes(graph: Graph) -> Iterator[Node]:
    """Its nodes, in the order of the file."""
    yield from map(graph.Nodes, range(graph.NodesLength()))


def outputs(of: Graph | Node) -> tuple[str, ...]:
    """The names of what a graph or a node computes."""
    return tuple(text(name) for name in map(of.Outputs, range(of.OutputsLength())))


def inner_graphs(node: Node) -> Iterator[tuple[str, Graph]]:
    """A node's graphs by the names of its attributes."""
    attribute: Attribute
    for attribute in map(node.Attributes, range(node.AttributesLength())):
        if attribute.G() is not None:
            yield text(attribute.Name()), attribute.G()


def text(name: bytes) -> str:
    """A name, which need not be UTF-8, as the provider reads it from ONNX Runtime."""
    return name.decode("utf-8", "surrogateescape")
