"""Sessions of ONNX Runtime on one provider, without the CPU provider beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from onnx import GraphProto, NodeProto, helper, numpy_helper

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.model import Model
from ep_nnapi.ort_devices.convert import convert
from ep_nnapi.ort_devices.prepared import PreparedSession
from ep_nnapi.sessions.cpu import CPU
from ep_nnapi.sessions.device_session import PythonSession, Threads

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice


_TENSORS = 7
"""Inputs of a Concat or outputs of a Split: with the other side at most eight buffers."""


_FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}
_OPTIONS = {
    "OpenVINOExecutionProvider": {"load_config": json.dumps({"CPU": _FLOAT32, "GPU": _FLOAT32})}
}
"""Options of providers that compute float32 in a shorter type where the hardware has one."""


class Refused(Exception):
    """A provider does not take a whole model."""


def open_on_provider(model: Model, provider: OrtEpDevice, threads: Threads) -> PreparedSession:
    """Prepare a model to run on a provider alone.

    Raises Inexpressible for operations that have no ONNX form, Refused if the provider does not
    take all nodes.
    """
    found = convert(model)
    narrow(found.proto.graph)
    options = onnxruntime.SessionOptions()
    if provider.ep_name != CPU:
        # otherwise ONNX Runtime would quietly put a session on the CPU that finds no GPU
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([provider], _OPTIONS.get(provider.ep_name, {}))
    try:
        with CONCURRENT_RUNS.without_blas:
            session = PythonSession.of(found.model(), options, threads, ())
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise Refused(f"{provider.ep_name} does not take it all: {_sentence(error)}") from None
    if provider.ep_name not in session.session.get_providers():
        raise Refused(f"{provider.ep_name} has no hardware to run on")
    return PreparedSession(session)


def narrow(graph: GraphProto) -> None:
    """Divides each Concat and Split of many tensors into several nodes.

    WebGPU promises shaders eight buffers, and its provider finds out at a run that it needs more.
    """
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.raw_data}
    nodes = [part for node in graph.node for part in _narrowed(node, known)]
    del graph.node[:]
    graph.node.extend(nodes)


def _narrowed(node: NodeProto, constants: Mapping[str, Array]) -> list[NodeProto]:
    if node.op_type == "Split" and len(node.output) > _TENSORS and node.input[1] in constants:
        return _slices(node, constants[node.input[1]])
    found = []
    while node.op_type == "Concat" and len(node.input) > _TENSORS:
        first = NodeProto()
        first.CopyFrom(node)
        first.name = ""
        del first.input[_TENSORS:], first.output[:]
        first.output.append(f"{node.output[0]}.{len(node.input)}")
        rest = node.input[_TENSORS:]
        del node.input[:]
        node.input.extend([first.output[0], *rest])
        found.append(first)
    return [*found, node]


def _slices(node: NodeProto, sizes: Array) -> list[NodeProto]:
    """The parts of a Split as nodes Slice."""
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    ends = np.cumsum(sizes)
    found = []
    for output, start, end in zip(node.output, ends - sizes, ends, strict=True):
        names = [f"{output}.{what}" for what in ("start", "end", "axis")]
        for name, value in zip(names, (start, end, axis), strict=True):
            tensor = numpy_helper.from_array(np.array([value], np.int64))
            found.append(helper.make_node("Constant", [], [name], value=tensor))
        found.append(helper.make_node("Slice", [node.input[0], *names], [output]))
    return found


def _sentence(error: Exception) -> str:
    return str(error).partition("\n")[0]
