"""A cluster's ONNX nodes as a model of their own, for the CPU provider."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnxruntime
from onnx import helper, numpy_helper

from ep_nnapi.cpu import exact_options, session_of
from ep_nnapi.graph import Attribute, GraphNode
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.value import Array, Constant, Value

_EXTERNAL_FROM = 1024  # bytes: smaller constants stay in the model's own file


def model_of(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    opsets: Mapping[str, int],
) -> onnx.ModelProto:
    """The nodes as an ONNX model; constants are read now and become initializers."""
    tensors = [numpy_helper.from_array(c.array, name) for name, c in _constants(nodes).items()]
    return _model(nodes, inputs, outputs, tensors, opsets)


def _constants(nodes: Iterable[GraphNode]) -> dict[str, Constant]:
    return {
        v.name: v.constant
        for n in nodes
        for v in n.inputs
        if v is not None and v.constant is not None
    }


def _model(
    nodes: Sequence[GraphNode],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    tensors: Sequence[onnx.TensorProto],
    opsets: Mapping[str, int],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node_of(n) for n in nodes],
        "cluster",
        [_info(v) for v in inputs],
        [_info(v) for v in outputs],
        list(tensors),
    )
    domains = {n.domain for n in nodes} | {""}
    imports = [helper.make_opsetid(d, opsets.get(d, 1)) for d in sorted(domains)]
    # the lowest IR version that has what the opsets need, so that old runtimes load it too
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def node_of(node: GraphNode) -> onnx.NodeProto:
    """The node as ONNX writes it."""
    made = helper.make_node(
        node.op_type,
        [v.name if v is not None else "" for v in node.inputs],
        [v.name if v is not None else "" for v in node.outputs],
        node.name,
        domain=node.domain,
    )
    made.attribute.extend(
        helper.make_attribute(name, _attribute(value))
        for name, value in node.attributes.items()
        if value != ()  # an empty list has no type to write; absent, it is empty all the same
    )
    return made


def _attribute(value: Attribute) -> object:
    return numpy_helper.from_array(value.array) if isinstance(value, Constant) else value


def _info(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, int(value.dtype), value.dims)


@dataclass
class CpuModel:
    """A model kept on disk, with its weights beside it, until a session is needed after all."""

    folder: Path
    _session: onnxruntime.InferenceSession | None = None
    _lock: ForkableLock = field(default_factory=ForkableLock)

    @staticmethod
    def keep(model: onnx.ModelProto) -> CpuModel:
        """Writes `model` to a folder that lives as long as the result."""
        kept = CpuModel(Path(tempfile.mkdtemp(prefix="ep-nnapi-")))
        weakref.finalize(kept, _remove, kept.folder, os.getpid())
        onnx.save_model(
            model,
            str(kept.folder / "model.onnx"),
            save_as_external_data=True,
            location="weights",
            size_threshold=_EXTERNAL_FROM,
        )
        return kept

    def run(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """The outputs, computed by the CPU provider; its session is made by the first run."""
        with self._lock:
            if self._session is None:
                self._session = self._open()
        return list(self._session.run(list(outputs), dict(feeds)))

    def _open(self) -> onnxruntime.InferenceSession:
        options = exact_options()
        # it runs inside another session's node: spinning threads would starve that one
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = str(self.folder / "model.onnx")
        return session_of(path, options)


def _remove(folder: Path, owner: int) -> None:
    """Removes a model's folder, unless it is a forked process that ends: the parent uses it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
