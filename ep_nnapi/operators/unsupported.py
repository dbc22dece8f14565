"""Explanations for operators without a lowering, with alternatives where there are any."""

from __future__ import annotations

from collections.abc import Mapping

from ep_nnapi.graph.graph import MICROSOFT_DOMAIN

_TRAINING = "it is for training; NNAPI supports only inference"


def _by_operator(explained: Mapping[str, str]) -> Mapping[str, str]:
    """Explanations by operator, from the operators that each one is of."""
    return {op: why for operators, why in explained.items() for op in operators.split()}


REJECTED = _by_operator(
    {
        "Compress NonMaxSuppression NonZero Unique": "its output shape depends on the data, and "
        "NNAPI needs static shapes",
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
        "SplitToSequence": "it works on sequences or optional values; NNAPI has only tensors",
        "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer": "it works on "
        "strings; NNAPI has only numbers",
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike": "it "
        "draws random numbers, which NNAPI generates differently from ONNX Runtime",
        "BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor": "NNAPI has no operations on "
        "bits; use arithmetic",
        "If Loop Scan": "control flow runs in ONNX Runtime; the nodes of its subgraphs are checked "
        "separately",
        "DFT STFT": "NNAPI has no complex numbers; use products with constant matrices",
        "BlackmanWindow HammingWindow HannWindow MelWeightMatrix": "it computes a constant, which "
        "ONNX Runtime folds if its inputs are constant",
        "Col2Im DeformConv GridSample MaxRoiPool MaxUnpool": "it reads or writes at data-dependent "
        "positions; NNAPI has no such operation",
        "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss": _TRAINING,
        "Attention LinearAttention RotaryEmbedding": "NNAPI has no such operation; export the "
        "model with it composed of simpler operators",
        "Det": "NNAPI has no determinant",
        "ImageDecoder": "it decodes image files; decode them before the model runs",
        "Tan": "the quotient of NNAPI's sines is not exact enough near its poles",
    }
)
"""Explanations for ai.onnx operators, by operator type."""

_CONTRIB = _by_operator(
    {
        "DynamicQuantizeMatMul MatMulIntegerToFloat QAttention QEmbedLayerNormalization "
        "QLinearReduceMean": "it is an operator of ONNX Runtime's own; quantize in QDQ form "
        "(quantize_static with QuantFormat.QDQ), or optimize the model to the basic level only",
        "MatMulBnb4": "NNAPI has no weights of fewer than 8 bits; quantize them to 8",
        "RotaryEmbedding": "it is taken with a position for each row, num_heads where the input "
        "has rank 3, and scale 1",
    }
)
"""Explanations for operators of com.microsoft that are not taken, or not in this form."""

_DOMAINS: Mapping[str, str] = {
    "ai.onnx.ml": "NNAPI has no classical machine learning; the node runs in ONNX Runtime",
    "ai.onnx.training": _TRAINING,
    "ai.onnx.preview.training": _TRAINING,
}


def why(domain: str, op_type: str) -> str:
    """Return the reason why the operator has no lowering; "no lowering" if none is recorded."""
    known = {"": REJECTED, MICROSOFT_DOMAIN: _CONTRIB}.get(domain, {})
    return known.get(op_type) or _DOMAINS.get(domain, "no lowering")
