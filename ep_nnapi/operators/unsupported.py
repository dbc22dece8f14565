"""Explanations for operators without a lowering, with alternatives where there are any."""

from __future__ import annotations

from collections.abc import Mapping

_DATA = "its output shape depends on the data, and NNAPI needs static shapes"
_SEQUENCE = "it works on sequences or optional values; NNAPI has only tensors"
_TEXT = "it works on strings; NNAPI has only numbers"
_RANDOM = "it draws random numbers, which NNAPI generates differently from ONNX Runtime"
_BITS = "NNAPI has no operations on bits; use arithmetic"
_CONTROL = "control flow runs in ONNX Runtime; the nodes of its subgraphs are checked separately"
_COMPLEX = "NNAPI has no complex numbers; use products with constant matrices"
_ONCE = "it computes a constant, which ONNX Runtime folds if its inputs are constant"
_SAMPLES = "it reads or writes at data-dependent positions; NNAPI has no such operation"
_TRAINING = "it is for training; NNAPI supports only inference"
_COMPOSED = "NNAPI has no such operation; export the model with it composed of simpler operators"

REJECTED: Mapping[str, str] = {
    **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DATA),
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
        ),
        _SEQUENCE,
    ),
    **dict.fromkeys(
        ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
        _TEXT,
    ),
    **dict.fromkeys(
        (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ),
        _RANDOM,
    ),
    **dict.fromkeys(
        ("BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _BITS
    ),
    **dict.fromkeys(("If", "Loop", "Scan"), _CONTROL),
    **dict.fromkeys(("DFT", "STFT"), _COMPLEX),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), _ONCE),
    **dict.fromkeys(
        (
            "Col2Im",
            "DeformConv",
            "GridSample",
            "MaxRoiPool",
            "MaxUnpool",
        ),
        _SAMPLES,
    ),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(("Attention", "LinearAttention", "RotaryEmbedding"), _COMPOSED),
    "Det": "NNAPI has no determinant",
    "ImageDecoder": "it decodes image files; decode them before the model runs",
    "Tan": "the quotient of NNAPI's sines is not exact enough near its poles",
}
"""Explanations for ai.onnx operators, by operator type."""

_OWN = (
    "it is an operator of ONNX Runtime's own; quantize in QDQ form (quantize_static with "
    "QuantFormat.QDQ), or optimize the model to the basic level only"
)
_FEW_BITS = "NNAPI has no weights of fewer than 8 bits; quantize them to 8"

_CONTRIB: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "DynamicQuantizeMatMul",
            "MatMulIntegerToFloat",
            "QAttention",
            "QEmbedLayerNormalization",
            "QLinearReduceMean",
        ),
        _OWN,
    ),
    "MatMulBnb4": _FEW_BITS,
    "RotaryEmbedding": "it is taken with a position for each row, num_heads where the input has "
    "rank 3, and scale 1",
}
"""Explanations for operators of com.microsoft that are not taken, or not in this form."""

_DOMAINS: Mapping[str, str] = {
    "ai.onnx.ml": "NNAPI has no classical machine learning; the node runs in ONNX Runtime",
    "ai.onnx.training": _TRAINING,
    "ai.onnx.preview.training": _TRAINING,
}


def why(domain: str, op_type: str) -> str:
    """Return the reason why the operator has no lowering; "no lowering" if none is recorded."""
    known = {"": REJECTED, "com.microsoft": _CONTRIB}.get(domain, {})
    return known.get(op_type) or _DOMAINS.get(domain, "no lowering")
