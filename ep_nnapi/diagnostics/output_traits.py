"""Detection of the model properties that determine tolerances for its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ep_nnapi.diagnostics.fixed_model import save_as_onnx
from ep_nnapi.diagnostics.float64_decomposition import DECOMPOSITIONS
from ep_nnapi.graph.onnx_io import Loadable, all_nodes, mentions, read_model
from ep_nnapi.nnapi.array import Array


class OutputKind(StrEnum):
    """Kind of an output, which determines its tolerance."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    QUANTIZED = "quantized"
    INTEGER = "integer"
    BOXES = "boxes"
    RANDOM = "random"


TOLERANCES: Mapping[OutputKind, float] = {
    OutputKind.FLOAT32: 1e-4,  # float32 accumulation in another order, over up to 50 layers
    OutputKind.FLOAT16: 2.0**-7,  # as many roundings as float32, eight of 2 ** -10
    OutputKind.QUANTIZED: 0.05,  # outputs that are real again, of layers that round to 1/255
    OutputKind.INTEGER: 0.0,
    OutputKind.BOXES: 1e-3,  # corners: an anchor plus a float32 network output
    OutputKind.RANDOM: inf,  # each session draws others
}
"""Largest allowed difference of outputs by kind, relative to their spread."""

QUANTA = 2.0
"""The same in quanta, for quantized outputs: a tie of theirs, and of their operands, either way."""


_QUANTIZED_BYTES = 2
"""Bytes of the largest quantized type."""


@dataclass(frozen=True, slots=True)
class OutputTraits:
    """Properties of a model that determine the kinds and tolerances of its outputs.

    quantized   True if it has quantized layers
    half        True if it computes in float16
    steps       quantum (scale) of outputs that are dequantized last, by name
    boxes       outputs whose rows are detections, with an order that depends on near ties
    random      outputs that depend on random numbers without a seed, which cannot be compared
    up_to_one   outputs of a sigmoid: 0.5 plus a number, so small ones have the rounding of 1 too
    """

    quantized: bool = False
    half: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    boxes: frozenset[str] = frozenset()
    random: frozenset[str] = frozenset()
    up_to_one: frozenset[str] = frozenset()

    def kind(self, name: str, array: Array) -> OutputKind:
        """Returns the kind of an output."""
        if name in self.random:
            return OutputKind.RANDOM
        if name in self.boxes:
            return OutputKind.BOXES
        if self.quantized:
            return OutputKind.QUANTIZED
        if array.dtype.kind != "f":
            return OutputKind.INTEGER
        return OutputKind.FLOAT16 if self.half or array.dtype == np.float16 else OutputKind.FLOAT32

    def quantum(self, name: str, array: Array) -> float | None:
        """Returns the size of a quantized output's steps; None for real numbers and indices."""
        if self.kind(name, array) is not OutputKind.QUANTIZED:
            return None
        if array.dtype.kind == "f":
            return self.steps.get(name) or None  # a scale of 0 is no unit
        return 1.0 if array.dtype.kind in "iu" and array.itemsize <= _QUANTIZED_BYTES else None


_KEEPS_SCALE = frozenset(
    ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Relu")
)
"""Operators whose outputs keep the quantization scale of their first input."""

_SIGMOIDS = frozenset(("Sigmoid", "HardSigmoid"))

_NAMES = (b"QuantizeLinear", b"QLinear", b"MatMulInteger", b"ConvInteger")


def traits_of(model: Loadable, *, half: bool = False) -> OutputTraits:
    """Returns the traits of a model.

    Of an .ort file without quantized operators nothing but `half` is known.
    half   True if float32 may be computed in float16, whatever types the model has
    """
    proto = read_model(model, weights=False)
    quantized = proto is None and mentions(model, *_NAMES)
    if quantized:
        with suppress(Exception):  # nodes that are compiled are for their own provider
            proto = from_ort(model)
    if proto is None:
        return OutputTraits(quantized, half)
    nodes = list(all_nodes(proto.graph))
    producers = {name: node for node in proto.graph.node for name in node.output}
    names = [o.name for o in proto.graph.output]
    tensors = {t.name: t for t in proto.graph.initializer}
    last = {name: _computed_by(name, producers) for name in names}
    folder = "" if isinstance(model, bytes) else str(Path(model).parent)
    found = ((name, _step(node, tensors, folder)) for name, node in last.items())
    boxes, random = (
        frozenset(n for n in names if _depends(n, producers, on)) if any(map(on, nodes)) else ()
        for on in (_detects, _draws)
    )
    return OutputTraits(
        any(node.op_type in DECOMPOSITIONS for node in nodes),
        half or _computes_half(proto.graph, nodes),
        {name: step for name, step in found if step is not None},
        frozenset(boxes),
        frozenset(random),
        frozenset(n for n, node in last.items() if node is not None and node.op_type in _SIGMOIDS),
    )


def _computes_half(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> bool:
    """Returns True if initializers, inputs or casts are float16."""
    half = TensorProto.FLOAT16
    return (
        any(t.data_type == half for t in graph.initializer)
        or any(i.type.tensor_type.elem_type == half for i in graph.input)
        or any(a.name == "to" and a.i == half for n in nodes for a in n.attribute)
    )


def _computed_by(name: str, producers: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """Returns the node that computes a value, before those that only move or select numbers."""
    node = producers.get(name)
    while node is not None and node.op_type in _KEEPS_SCALE:
        node = producers.get(node.input[0])
    return node


def _step(
    node: onnx.NodeProto | None, tensors: Mapping[str, onnx.TensorProto], folder: str
) -> float | None:
    """Returns the scale of what DequantizeLinear computes, or None for other nodes.

    folder   of the model, whose tensors may be external
    """
    if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in tensors:
        return None
    scale = numpy_helper.to_array(tensors[node.input[1]], folder)
    return float(scale.max(initial=0.0))


def _detects(node: onnx.NodeProto) -> bool:
    return node.op_type == "NonMaxSuppression"


def _draws(node: onnx.NodeProto) -> bool:
    """Returns True if each session draws other numbers: no seed is set; Dropout only trains."""
    return (
        node.domain == ""
        and node.op_type != "Dropout"
        and onnx.defs.has(node.op_type)
        and "seed" in onnx.defs.get_schema(node.op_type).attributes
        and not any(a.name == "seed" for a in node.attribute)
    )


def _depends(
    name: str, producers: Mapping[str, onnx.NodeProto], on: Callable[[onnx.NodeProto], bool]
) -> bool:
    """Returns True if a value depends on the output of a node for which `on` is True."""
    seen: set[str] = set()
    left = [name]
    while left:
        value = left.pop()
        node = producers.get(value)
        if node is None or value in seen:
            continue
        if on(node):
            return True
        seen |= set(node.output)
        left.extend(node.input)
    return False


def from_ort(model: Loadable) -> onnx.ModelProto | None:
    """Returns the ONNX model that ONNX Runtime writes of an .ort file, with the same nodes."""
    with TemporaryDirectory(prefix="ep-nnapi-") as folder:
        written = Path(folder, "model.onnx")
        save_as_onnx(model if isinstance(model, bytes) else str(model), written)
        return read_model(written)


_HALF = np.finfo(np.float16)


def _overflows(values: Array) -> Array:
    """True for a value that is not finite, or whose square or sum with others is not."""
    return np.asarray(~(np.abs(values) <= np.sqrt(np.float64(np.finfo(values.dtype).max))))


def _no_half(values: Array) -> Array:
    """True for a number that overflows in float16, as its square, or loses its precision."""
    sizes = np.abs(values, dtype=np.float64)
    small = (sizes > 0) & (sizes < float(_HALF.smallest_normal))
    return np.asarray(np.isfinite(sizes) & (small | (sizes > np.sqrt(float(_HALF.max)))))


def _rounded_to_half(values: Array) -> Array:
    """True for a number that is none of float16's."""
    with np.errstate(over="ignore"):
        return np.asarray(np.isfinite(values) & (values.astype(np.float16) != values))


def _no_integer(values: Array) -> Array:
    """True for a value that is none of int32's."""
    return np.asarray(~(np.abs(values, dtype=np.float64) < 2.0**31))


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A difference that is no defect of a lowering or a device.

    op_types  the ONNX operators that have it; all without any
    values    True for the values of an operand that bring it about
    half      True if only computation in float16 has it
    """

    cause: str
    source: str
    op_types: frozenset[str]
    values: Callable[[Array], Array]
    half: bool = False


def op_types(text: str) -> frozenset[str]:
    """Operator types that are written with spaces between them."""
    return frozenset(text.split())


KNOWN = (
    KnownDifference(
        "products and sums of float16 are infinite beyond 65504, and inexact below 6e-5",
        "NDK ANeuralNetworksModel_relaxComputationFloat32toFloat16",
        frozenset(),
        _no_half,
        half=True,
    ),
    KnownDifference(
        "numbers that float16 does not tell apart are equal",
        "NDK ANeuralNetworksModel_relaxComputationFloat32toFloat16",
        op_types("Equal Greater GreaterOrEqual Less LessOrEqual"),
        _rounded_to_half,
        half=True,
    ),
    KnownDifference(
        "ONNX's Clip limits an open end to the largest number, NNAPI keeps infinities there",
        "ONNX Clip-13; NDK ANEURALNETWORKS_RELU, ANEURALNETWORKS_MINIMUM",
        op_types("Clip"),
        np.isinf,
    ),
    KnownDifference(
        "NNAPI does not define the order of NaN and numbers",
        "NDK ANEURALNETWORKS_MAXIMUM, ANEURALNETWORKS_MAX_POOL_2D, ANEURALNETWORKS_ARGMAX",
        op_types(
            "MaxPool GlobalMaxPool Max Min ReduceMax ReduceMin ArgMax ArgMin Hardmax TopK Clip "
            "Relu Sign"
        ),
        np.isnan,
    ),
    KnownDifference(
        "NNAPI's operations multiply by zeros here, and zero times infinity or NaN is NaN",
        "NDK ANEURALNETWORKS_FULLY_CONNECTED, ANEURALNETWORKS_RESIZE_BILINEAR",
        op_types(
            "CumSum Resize Upsample RoiAlign ConvTranspose ScatterND ScatterElements Scatter PRelu "
            "LeakyRelu AveragePool LpPool Hardmax"
        ),
        lambda values: ~np.isfinite(values),
    ),
    KnownDifference(
        "NNAPI does not define the order of sums, of which some overflow where others do not",
        "NDK ANEURALNETWORKS_CONV_2D, ANEURALNETWORKS_FULLY_CONNECTED, ANEURALNETWORKS_MEAN",
        op_types(
            "Gemm MatMul Einsum Conv ConvTranspose AveragePool GlobalAveragePool ReduceSum "
            "ReduceMean ReduceL1 ReduceSumSquare ReduceProd Mean Sum BatchNormalization CumSum "
            "FusedConv FusedGemm FusedMatMul"
        ),
        _overflows,
    ),
    KnownDifference(
        "NNAPI has no operation of this function, and what computes it overflows",
        "NDK NeuralNetworksTypes.h, OperationCode",
        op_types(
            "Asinh Acosh Atanh Asin Acos Atan Cosh Sinh Erf Gelu FastGelu BiasGelu QuickGelu Mish "
            "Softplus Softsign Swish Celu Elu Selu Mod Pow LogSoftmax ReduceL2 ReduceLogSum "
            "ReduceLogSumExp LpNormalization LpPool GlobalLpPool LRN GroupNormalization "
            "InstanceNormalization LayerNormalization RMSNormalization "
            "MeanVarianceNormalization LSTM GRU RNN"
        ),
        _overflows,
    ),
    KnownDifference(
        "neither ONNX nor NNAPI defines the integer of NaN, of infinities and of larger numbers",
        "ONNX Cast-13; NDK ANEURALNETWORKS_CAST",
        op_types("Cast CastLike"),
        _no_integer,
    ),
)
"""All of them; tests on random graphs allow no other."""


def known_differences(
    op_types: Sequence[str], operands: Iterable[Array], *, half: bool
) -> list[KnownDifference]:
    """Returns those that the operators have with these operands.

    half  True if float32 may be computed in float16
    """
    floats = [a for a in operands if a.dtype.kind == "f"]
    return [
        known
        for known in KNOWN
        if (half or not known.half)
        and (not known.op_types or not known.op_types.isdisjoint(op_types))
        and any(known.values(a).any() for a in floats)
    ]


def note_of(known: Sequence[KnownDifference]) -> str:
    """Returns a sentence on each; empty without any."""
    return " ".join(f"A known difference: {k.cause} ({k.source})." for k in known)
