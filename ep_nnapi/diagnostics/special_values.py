"""Differences from the CPU provider that NNAPI's operations make of NaN, infinities and the like.

Each has a cause, the operators that have it, the values that bring it about, and the source of what
NNAPI does. `compare` notes it beside an operation that differs for this reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ep_nnapi.nnapi.array import Array

_HALF = np.finfo(np.float16)


def _nan(values: Array) -> bool:
    return bool(np.isnan(values).any())


def _infinite(values: Array) -> bool:
    return bool(np.isinf(values).any())


def _overflows(values: Array) -> bool:
    """True if a value is not finite, or the sum of some values or the square of one is not."""
    return not np.isfinite(values).all() or bool(np.abs(values).max(initial=0) > _root(values))


def _root(values: Array) -> float:
    return float(np.sqrt(np.float64(np.finfo(values.dtype).max)))


def _no_half(values: Array) -> bool:
    """True if a number, or its square, overflows in float16 or loses its precision."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    return bool(
        ((sizes > np.sqrt(float(_HALF.max))) | (sizes < float(_HALF.smallest_normal))).any()
    )


def _rounded_to_half(values: Array) -> bool:
    """True if a number is none of float16's."""
    kept = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool((kept.astype(np.float16) != kept).any())


def _no_integer(values: Array) -> bool:
    """True if a value is none of int32's."""
    return not bool((np.abs(np.nan_to_num(values, nan=np.inf)) < 2.0**31).all())


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A difference that is no defect of a lowering or a device.

    op_types  the ONNX operators that have it; all without any
    values    tells whether an operand has values that bring it about
    half      True if only computation in float16 has it
    """

    cause: str
    source: str
    op_types: frozenset[str]
    values: Callable[[Array], bool]
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
        _infinite,
    ),
    KnownDifference(
        "NNAPI does not define the order of NaN and numbers",
        "NDK ANEURALNETWORKS_MAXIMUM, ANEURALNETWORKS_MAX_POOL_2D, ANEURALNETWORKS_ARGMAX",
        op_types(
            "MaxPool GlobalMaxPool Max Min ReduceMax ReduceMin ArgMax ArgMin Hardmax TopK Clip "
            "Relu Sign"
        ),
        _nan,
    ),
    KnownDifference(
        "NNAPI's operations multiply by zeros here, and zero times infinity or NaN is NaN",
        "NDK ANEURALNETWORKS_FULLY_CONNECTED, ANEURALNETWORKS_RESIZE_BILINEAR",
        op_types(
            "CumSum Resize Upsample RoiAlign ConvTranspose ScatterND ScatterElements Scatter PRelu "
            "LeakyRelu AveragePool LpPool Hardmax"
        ),
        lambda values: _nan(values) or _infinite(values),
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
        and any(known.values(a) for a in floats)
    ]


def note_of(known: Sequence[KnownDifference]) -> str:
    """Returns a sentence on each; empty without any."""
    return " ".join(f"A known difference: {k.cause} ({k.source})." for k in known)
