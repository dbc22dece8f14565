"""Names in saved models with which ONNX Runtime would not load them again."""

from __future__ import annotations

import mmap
from collections.abc import Set
from pathlib import Path

import onnx
from onnx import AttributeProto

from ep_nnapi.onnxfile import graphs

_GIVEN = ("gemm_input_shape", "gemm_output_shape")
"""What its fusion of MatMul and Add calls the constants it makes.

Where two of them are equal, sharing constants takes one's name out of use but leaves its data, the
name is given again, and the session ends with "Attempt to replace the existing tensor".
Source: onnxruntime 1.31, MatMulAddFusion and ConstantSharing.
"""


def rename_given(path: Path) -> None:
    """Renames such constants in an .onnx file, which can be optimized again then."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if not any(data.find(name.encode()) >= 0 for name in _GIVEN):
            return
    proto = onnx.load(str(path))
    taken = {v.name for v in (*proto.graph.input, *proto.graph.output)}
    for graph in graphs(proto.graph):
        for tensor in graph.initializer:
            tensor.name = _renamed(tensor.name, taken)
        for node in graph.node:
            node.input[:] = [_renamed(name, taken) for name in node.input]
    onnx.save(proto, str(path))


def name_inner_graphs(path: Path) -> None:
    """Names the inner graphs of an .onnx file written from an .ort file, which has no such names.

    The checker that ONNX Runtime loads a model with asks for them.
    """
    proto = onnx.load(str(path))
    for graph in graphs(proto.graph):
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    attribute.g.name = attribute.g.name or attribute.name
    onnx.save(proto, str(path))


def _renamed(name: str, taken: Set[str]) -> str:
    return f"prepared_{name}" if name.startswith(_GIVEN) and name not in taken else name
