"""Claimed nodes that ONNX Runtime fuses all the same, and how it is kept from that.

Its extended fusions leave the nodes of other providers alone but for one: attention's MatMul and
Add become Gemm whoever runs them. A product that another node reads too is not fused.
Source: onnxruntime 1.31, MatMulAddFusion at TransformerLevel::Level2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from pathlib import Path

import onnx
from onnx import helper
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph

from ep_nnapi.onnxfile import graphs
from ep_nnapi.ortfile import inner_graphs, opened, outputs
from ep_nnapi.ortfile import nodes as nodes_of
from ep_nnapi.report import Report

_READER = "ep_nnapi_second_reader_"


def lost(saved: Path, report: Report) -> frozenset[str]:
    """Names of nodes in clusters of `report` that the .ort file `saved` has no more."""
    written = _written(saved)
    return frozenset(n for c in report.clusters for n in c.nodes if n not in written)


def expose(model: Path, nodes: Set[str]) -> None:
    """Gives what these nodes of an .onnx file compute a second reader, in inner graphs too.

    model   as ONNX Runtime's basic level leaves it; an unnamed node goes by its first output
    """
    proto, count = onnx.load(str(model)), itertools.count()
    for graph in graphs(proto.graph):
        read = [o for n in graph.node if (n.name or n.output[0]) in nodes for o in n.output if o]
        graph.node.extend(
            helper.make_node("Size", [name], [f"{_READER}{next(count)}"]) for name in read
        )
    onnx.save(proto, str(model))


def conceal(model: Path) -> None:
    """Takes back what `expose` did."""
    proto = onnx.load(str(model))
    for graph in graphs(proto.graph):
        kept = [n for n in graph.node if not n.output[0].startswith(_READER)]
        del graph.node[:]
        graph.node.extend(kept)
    onnx.save(proto, str(model))


def _written(saved: Path) -> frozenset[str]:
    """Names of all nodes in an .ort file, and of what they compute."""
    with opened(saved) as graph:
        return frozenset(_names(graph))


def _names(graph: Graph) -> Iterator[str]:
    for node in nodes_of(graph):
        yield node.Name().decode()
        yield from outputs(node)
        for _, inner in inner_graphs(node):
            yield from _names(inner)
