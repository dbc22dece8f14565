"""Alternatives to NNAPI for a model: what other runtimes take of it, by their documentation.

Android has deprecated NNAPI in version 15. Nothing here is measured but what LiteRT's operators
compute exactly: its library answers that where it is installed, else this package's own table. The
rest is what each project documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote

import onnx
from onnx import ModelProto, TensorProto
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.check import partitioned_at
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.output_traits import op_types
from ep_nnapi.diagnostics.session_runs import source
from ep_nnapi.graph.onnx_io import (
    ONNX_DOMAINS,
    all_nodes,
    graphs,
    open_inputs,
    opset_of,
    read_model,
    static_sizes,
)
from ep_nnapi.litert.device import LiteRtDevice, LiteRtRuntime, open_runtime
from ep_nnapi.litert.package import is_installed
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.table import Options
from ep_nnapi.options.values import to_text
from ep_nnapi.report.report import Report

XNNPACK = op_types(
    "AveragePool Conv ConvTranspose Gemm MatMul MaxPool QLinearConv Resize Softmax "
    "com.microsoft:QLinearAveragePool com.microsoft:QLinearConvTranspose "
    "com.microsoft:QLinearSoftmax DequantizeLinear QuantizeLinear"
)
"""Weights and bias must be constant, images 2-D; Resize bilinear, Softmax along the last axis.

QuantizeLinear and DequantizeLinear belong to the QDQ form of the quantized operators.
"""

QNN = op_types(
    "Abs Add And ArgMax ArgMin Asin Atan AveragePool BatchNormalization Cast Clip Concat Conv "
    "ConvTranspose Cos DepthToSpace DequantizeLinear Div Elu Equal Exp Expand Flatten Floor Gather "
    "Gelu Gemm GlobalAveragePool Greater GreaterOrEqual GridSample HardSwish InstanceNormalization "
    "LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max "
    "MaxPool Min Mul Neg Not Or PRelu Pad Pow QuantizeLinear ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum Relu Reshape Resize Round Sigmoid Sign Sin Slice Softmax SpaceToDepth "
    "Split Sqrt Squeeze Sub Tanh Tile TopK Transpose Unsqueeze Where "
    "com.microsoft:DequantizeLinear com.microsoft:Gelu com.microsoft:QuantizeLinear"
)
"""Which types each takes depends on the backend and on Qualcomm's SDK.

Reshape, which the page leaves out, is in the release notes of onnxruntime-qnn 2.5.

Source of both lists: onnxruntime.ai, documentation of the XNNPACK and QNN execution providers,
"Supported ops" and "Supported ONNX operators", as of 2026-11.
"""


_DEFAULTS = Options()
_WEBGPU_OPSET = 21
"""Newest opset at which the WebGPU provider's plugin 0.4 takes MaxPool, Transpose and others."""
_UNTAKEN_BY_WEBGPU = frozenset(("RNN", "LSTM", "GRU", "Scan", "Loop"))
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinear", "QGemm", "MatMulInteger")
_DOCS = "https://onnxruntime.ai/docs/execution-providers"


@dataclass(frozen=True, slots=True)
class OtherRuntime:
    """One way to run a model without NNAPI.

    taken     nodes that it takes: by its documentation or, for LiteRT, by this package's table;
              None where it documents no list for this version
    nodes     nodes of the model, counted in the same way
    left      operator types that it does not take, with their numbers
    notes     what of this model matters there
    command   makes the file that it loads
    source    the documentation
    """

    name: str
    taken: int | None
    nodes: int
    left: Mapping[str, int]
    notes: tuple[str, ...]
    command: str
    source: str


@dataclass(frozen=True, slots=True)
class _Facts:
    """What matters of a model: operator types, quantization, float16, sizes, opset.

    symbolic  names of the inputs that are not static
    fixed     the option `fix`, whose sizes are written into what is prepared
    """

    operators: Counter[str]
    quantized: bool
    half: bool
    symbolic: tuple[str, ...]
    fixed: str
    opset: int


def advise(model: str, options: Options = _DEFAULTS) -> tuple[OtherRuntime, ...]:
    """Returns the alternatives to NNAPI for a model file, in a fixed order.

    Raises ModelError for a file that is no ONNX model, OptionError for wrong options.
    """
    loaded = source(model)
    if read_model(loaded, weights=False) is None:
        raise ModelError(f"{model}: advice needs the .onnx file; .ort files are optimized already")
    with fixed_model(loaded, options) as (static, rest):
        level = GraphOptimizationLevel.ORT_ENABLE_BASIC
        facts = _facts(read_model(static) or ModelProto(), to_text(options.fix))
        runtime = _litert_runtime()
        reports = {
            device: partitioned_at(static, replace(rest, device=device.name), level, runtime).report
            for device in runtime.accelerators
        }
    return (
        _cpu(model, facts),
        _xnnpack(model, facts),
        _webgpu(model, facts),
        _qnn(model, facts),
        _litert(model, facts, reports),
    )


def _litert_runtime() -> LiteRtRuntime:
    """With the package's library; without one, or with one too old, that of the writer."""
    try:
        return open_runtime() if is_installed() else LiteRtRuntime()
    except OptionError:
        return LiteRtRuntime()


def _facts(proto: ModelProto, fixed: str) -> _Facts:
    nodes = list(all_nodes(proto.graph))
    inputs = open_inputs(proto.graph)
    tensors = [i.type.tensor_type.elem_type for i in inputs]
    tensors += [t.data_type for graph in graphs(proto.graph) for t in graph.initializer]
    return _Facts(
        Counter(_type_of(n) for n in nodes if n.op_type != "Constant"),
        any(n.op_type.startswith(_QUANTIZED) for n in nodes),
        TensorProto.FLOAT16 in tensors,
        tuple(i.name for i in inputs if static_sizes(i) is None),
        fixed,
        opset_of(proto),
    )


def _type_of(node: onnx.NodeProto) -> str:
    """The operator type, with its domain if that is not ONNX's."""
    return node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}:{node.op_type}"


def _prepare(model: str, facts: _Facts, how: str, *, static: bool = False) -> str:
    """Returns the command; `static` asks for the sizes that the user's `--fix` leaves open."""
    sizes = [facts.fixed] * bool(facts.fixed)
    sizes += [f"{name}=SIZES" for name in facts.symbolic[:1] if static]
    fixed = f" --fix {quote(';'.join(sizes))}" if sizes else ""
    return f"ep-nnapi prepare {quote(model)} -o OUT {how}{fixed}"


def _cpu(model: str, facts: _Facts) -> OtherRuntime:
    count = facts.operators.total()
    notes = ("every type that ONNX Runtime loads; nothing to convert",)
    command = _prepare(model, facts, "--optimization-level all")
    return OtherRuntime("CPU", count, count, {}, notes, command, f"{_DOCS}/")


def _xnnpack(model: str, facts: _Facts) -> OtherRuntime:
    notes = ["2-D convolutions and pools, with constant weights; the rest runs on the CPU"]
    if facts.quantized:
        notes.append("quantized: QLinear operators and QDQ groups of these")
    command = _prepare(model, facts, "--optimization-level basic")
    where = f"{_DOCS}/Xnnpack-ExecutionProvider.html"
    return _documented("XNNPACK", facts, XNNPACK, tuple(notes), command, where)


def _webgpu(model: str, facts: _Facts) -> OtherRuntime:
    notes = ["float32, and float16 where the GPU has it; the plugin onnxruntime-ep-webgpu"]
    if facts.quantized:
        notes.append("most quantized operators stay on the CPU: give it the float model")
    if facts.opset > _WEBGPU_OPSET:
        notes.append(f"opset {facts.opset}: above {_WEBGPU_OPSET} it takes fewer operators")
    loops = sorted(_UNTAKEN_BY_WEBGPU & facts.operators.keys())
    left = {name: facts.operators[name] for name in loops}
    command = _prepare(model, facts, "--format onnx --optimization-level basic")
    where = f"{_DOCS}/WebGPU-ExecutionProvider.html"
    return OtherRuntime("WebGPU", None, facts.operators.total(), left, tuple(notes), command, where)


def _qnn(model: str, facts: _Facts) -> OtherRuntime:
    notes = ["Qualcomm's processors; HTP computes uint8 and uint16 QDQ models"]
    if not facts.quantized:
        notes.append("not quantized: HTP computes it in float16, or quantize it first")
    if facts.symbolic:
        notes.append(f"static shapes only: fix {', '.join(facts.symbolic)}")
    how = "--format onnx --optimization-level basic"
    command = _prepare(model, facts, how, static=True)
    where = f"{_DOCS}/QNN-ExecutionProvider.html"
    return _documented("QNN", facts, QNN, tuple(notes), command, where)


def _litert(model: str, facts: _Facts, reports: Mapping[LiteRtDevice, Report]) -> OtherRuntime:
    """By the first device's answer, that of the CPU or of the writer of files."""
    report = next(iter(reports.values()))
    left = Counter(r.op_type for r in report.rejections)
    notes = ["float32, uint8 and int8, as NNAPI computes them; checked operation by operation"]
    if facts.half:
        notes.append("float16 is computed in float32")
    if len(report.clusters) > 1:
        notes.append(f"{len(report.clusters)} files, one for each cluster; the rest needs another")
    if facts.symbolic:
        notes.append(f"static shapes only: fix {', '.join(facts.symbolic)}")
    notes += [
        f"LiteRT {device.version} compiles {found.taken} of {found.nodes} nodes for {device.name}"
        for device, found in reports.items()
        if device.library is not None
    ]
    command = _prepare(model, facts, "--format tflite", static=True)
    where = "https://ai.google.dev/edge/litert"
    return OtherRuntime(
        "LiteRT", report.taken, report.nodes, dict(left), tuple(notes), command, where
    )


def _documented(
    name: str,
    facts: _Facts,
    listed: frozenset[str],
    notes: tuple[str, ...],
    command: str,
    where: str,
) -> OtherRuntime:
    left = {op: n for op, n in sorted(facts.operators.items()) if op not in listed}
    nodes = facts.operators.total()
    return OtherRuntime(name, nodes - sum(left.values()), nodes, left, notes, command, where)
