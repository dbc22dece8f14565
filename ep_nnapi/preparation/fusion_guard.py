"""Claimed nodes that ONNX Runtime fuses all the same, and how it is kept from that.

Its extended fusions leave the nodes of other providers alone but for some that ask of one node only
who runs it, or of none: attention's MatMul and Add become Gemm, MatMulInteger with what follows it
MatMulIntegerToFloat. None of them fuses across a tensor that another node reads too.
Source: onnxruntime 1.31, MatMulAddFusion at TransformerLevel::Level2, MatMulIntegerToFloatFusion.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from onnx import ModelProto, helper
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph

from ep_nnapi.graph.onnx_io import edited, graphs
from ep_nnapi.graph.ort_io import inner_graphs, opened, outputs, text
from ep_nnapi.graph.ort_io import nodes as nodes_of
from ep_nnapi.report import Report

_READER = "ep_nnapi_reader_"


def is_kept(saved: Path, report: Report) -> bool:
    """Whether the clusters of `report` are in the .ort file `saved`.

    A node that was fused is not there, or under its name another one, which computes something else
    than the cluster.
    """
    written = _written(saved)
    return all(written.issuperset((*c.nodes, *c.outputs)) for c in report.clusters)


def expose(model: Path, report: Report) -> None:
    """Gives tensors that clusters compute or read another reader, in inner graphs too.

    model   as ONNX Runtime's basic level leaves it; an unnamed node goes by its first output
    """
    count = itertools.count()
    claimed = {name for c in report.clusters for name in c.nodes}
    with edited(model) as proto:
        operator = _reader(proto)
        for graph in graphs(proto.graph):
            computed = {name for node in graph.node for name in node.output if name}
            read = {
                name: None
                for node in graph.node
                if (node.name or node.output[0]) in claimed
                for name in (*node.input, *node.output)
                if name in computed
            }
            graph.node.extend(
                helper.make_node(operator, [name], [f"{_READER}{next(count)}"]) for name in read
            )


def conceal(model: Path) -> None:
    """Takes back what `expose` did."""
    with edited(model) as proto:
        for graph in graphs(proto.graph):
            kept = [n for n in graph.node if not n.output[0].startswith(_READER)]
            del graph.node[:]
            graph.node.extend(kept)


def _reader(proto: ModelProto) -> str:
    """The operator that reads a tensor.

    SequenceConstruct, from opset 11, takes tensors of every type on the CPU provider, and NNAPI
    does not take it: ONNX Runtime writes a node that NNAPI took only if the CPU provider has a
    kernel for its types too, which Size lacks for float16.
    """
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    return "SequenceConstruct" if opset >= 11 else "Size"


def _written(saved: Path) -> frozenset[str]:
    """Names of all nodes in an .ort file, and of what they compute."""
    with opened(saved) as graph:
        return frozenset(_names(graph))


def _names(graph: Graph) -> Iterator[str]:
    for node in nodes_of(graph):
        yield text(node.Name())
        yield from outputs(node)
        for _, inner in inner_graphs(node):
            yield from _names(inner)
