"""Protection of nodes assigned to NNAPI from ONNX Runtime's CPU fusions.

Most extended fusions skip nodes assigned to other providers. Some check the assignment of only one
node or of none: MatMul and Add in attention become Gemm, and MatMulInteger with the nodes after it
becomes MatMulIntegerToFloat. No fusion spans a tensor with a second consumer, so an extra consumer
prevents it.
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
from ep_nnapi.report.report import Report

_READER = "ep_nnapi_reader_"


def is_unfused(saved: Path, report: Report) -> bool:
    """Returns True if the .ort file `saved` contains all nodes of the clusters in `report`.

    A fused node is missing, or its name belongs to a node that computes other outputs. Both the
    names of nodes and the names of outputs must therefore be present.
    """
    written = _written(saved)
    return all(written.issuperset((*c.nodes, *c.outputs)) for c in report.clusters)


def add_consumers(model: Path, report: Report) -> None:
    """Adds a consumer to each tensor that clusters compute or read, in subgraphs too.

    model   after ONNX Runtime's basic optimization; unnamed nodes are matched by first output
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


def remove_consumers(model: Path) -> None:
    """Removes the consumers that `expose` added."""
    with edited(model) as proto:
        for graph in graphs(proto.graph):
            kept = [n for n in graph.node if not n.output[0].startswith(_READER)]
            del graph.node[:]
            graph.node.extend(kept)


def _reader(proto: ModelProto) -> str:
    """Returns the type of the operator to add as a consumer.

    SequenceConstruct, from opset 11, accepts tensors of every type on the CPU provider, and NNAPI
    never claims it. ONNX Runtime saves a claimed node only if the CPU provider has a kernel for
    its types too; Size, which is used below opset 11, has none for float16.
    """
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    return "SequenceConstruct" if opset >= 11 else "Size"


def _written(saved: Path) -> frozenset[str]:
    """Returns the names of all nodes in an .ort file and of their outputs."""
    with opened(saved) as graph:
        return frozenset(_names(graph))


def _names(graph: Graph) -> Iterator[str]:
    for node in nodes_of(graph):
        yield text(node.Name())
        yield from outputs(node)
        for _, inner in inner_graphs(node):
            yield from _names(inner)
