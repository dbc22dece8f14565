"""Claimed nodes that ONNX Runtime fuses all the same, and how it is kept from that.

Its extended fusions leave the nodes of other providers alone but for one: attention's MatMul and
Add become Gemm whoever runs them. A product that is an output of the model is not fused.
Source: onnxruntime 1.31, MatMulAddFusion at TransformerLevel::Level2.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator, Set
from pathlib import Path

import onnx
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs import InferenceSession
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph

from ep_nnapi.report import Report


def lost(saved: Path, report: Report) -> frozenset[str]:
    """Names of nodes in clusters of `report` that the .ort file `saved` has no more."""
    written = _written(saved)
    return frozenset(n for c in report.clusters for n in c.nodes if n not in written)


def expose(model: Path, nodes: Set[str]) -> frozenset[str]:
    """Makes what these nodes of an .onnx file compute outputs of the model; their names.

    model   as ONNX Runtime's basic level leaves it; an unnamed node goes by its first output
    Nodes of inner graphs, whose outputs are counted by the node around them, stay as they are.
    """
    proto = onnx.load(str(model))
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.value_info}
    already = {v.name for v in proto.graph.output}
    found = [
        known[name]
        for node in proto.graph.node
        if (node.name or node.output[0]) in nodes
        for name in node.output
        if name in known and name not in already
    ]
    proto.graph.output.extend(found)
    onnx.save(proto, str(model))
    return frozenset(v.name for v in found)


def conceal(model: Path, outputs: Collection[str]) -> None:
    """Takes back what `expose` did."""
    proto = onnx.load(str(model))
    kept = [v for v in proto.graph.output if v.name not in outputs]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)
    onnx.save(proto, str(model))


def _written(saved: Path) -> frozenset[str]:
    """Names of all nodes in an .ort file, and of what they compute; its weights are not read."""
    with saved.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        session = InferenceSession.InferenceSession.GetRootAs(data)
        return frozenset(name.decode() for name in _names(session.Model().Graph()))


def _names(graph: Graph) -> Iterator[bytes]:
    for node in map(graph.Nodes, range(graph.NodesLength())):
        yield node.Name()
        yield from map(node.Outputs, range(node.OutputsLength()))
        for attribute in map(node.Attributes, range(node.AttributesLength())):
            if attribute.G() is not None:
                yield from _names(attribute.G())
