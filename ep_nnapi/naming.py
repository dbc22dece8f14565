"""Names that ONNX Runtime gives and, in a model that it loads again, would give once more."""

from __future__ import annotations

import mmap
from collections.abc import Set
from pathlib import Path

import onnx

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


def _renamed(name: str, taken: Set[str]) -> str:
    return f"prepared_{name}" if name.startswith(_GIVEN) and name not in taken else name
