"""Repairs of names in .onnx files saved by ONNX Runtime, which it could not load otherwise."""

from __future__ import annotations

import mmap
from collections.abc import Set
from itertools import count
from pathlib import Path

from onnx import GraphProto, TensorProto, ValueInfoProto, helper
from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Graph import Graph

from ep_nnapi.graph.onnx_io import edited, graphs
from ep_nnapi.graph.ort_io import inner_graphs, nodes, opened, outputs

_GENERATED = ("gemm_input_shape", "gemm_output_shape", "splits", "squeeze_axes")
"""Name prefixes of the constants that ONNX Runtime creates, in fusions of MatMul and Add, and of
Gathers or Slices into a Split.

If two of them are equal, ConstantSharing frees one name but leaves its data. A second fusion reuses
the name, and session creation fails with "Attempt to replace the existing tensor".
Source: onnxruntime 1.31, MatMulAddFusion, GatherSliceToSplitFusion and ConstantSharing.
"""


def rename_generated(path: Path) -> None:
    """Renames the constants of `_GENERATED` in an .onnx file so that it can be optimized again."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if not any(data.find(name.encode()) >= 0 for name in _GENERATED):
            return
    with edited(path) as proto:
        every = tuple(graphs(proto.graph))
        ends = {v.name for v in (*proto.graph.input, *proto.graph.output)}
        renamed = _renamed({t.name for g in every for t in g.initializer} - ends)
        for graph in every:
            for tensor in graph.initializer:
                tensor.name = renamed.get(tensor.name, tensor.name)
            for node in graph.node:
                node.input[:] = [renamed.get(name, name) for name in node.input]


def restore_subgraphs(path: Path, saved: Path) -> None:
    """Restores names and outputs of subgraphs in the .onnx file `path`, written from `saved`.

    Subgraphs in .ort files have no names, and ONNX Runtime drops the outputs of subgraphs without
    nodes, which are constants. It does not load an .onnx file that lacks them.
    """
    with opened(saved) as graph:
        if not any(True for node in nodes(graph) for _ in inner_graphs(node)):
            return
        with edited(path) as proto:
            _restore_subgraphs(proto.graph, graph)


def _restore_subgraphs(graph: GraphProto, saved: Graph) -> None:
    known = {(tuple(n.output), a.name): a.g for n in graph.node for a in n.attribute}
    for node in nodes(saved):
        for name, its in inner_graphs(node):
            inner = known[outputs(node), name]
            inner.name = inner.name or name
            if not inner.node and not inner.output:
                initializers = {t.name: t for t in inner.initializer}
                inner.output.extend(_info(initializers[output]) for output in outputs(its))
            _restore_subgraphs(inner, its)


def _info(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _renamed(names: Set[str]) -> dict[str, str]:
    """Returns new names for the generated ones, apart from those given when it was saved before."""
    renamed = {}
    for name in (n for n in names if n.startswith(_GENERATED)):
        free = (f"{'prepared_' * n}{name}" for n in count(1))
        renamed[name] = next(new for new in free if new not in names)
    return renamed
