"""Constraints between the operands of an operation, checked when a model is finished.

Source: the operations' entries in NeuralNetworksTypes.h, as far as Android checks them before a
model is compiled. Unknown dimensions pass; they are checked at run time, when they are known.
A rule returns the feature level it needs, if any, or raises Reject.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.params import Typed
from ep_nnapi.nnapi.signature import RequiredLevel, Rule, RuleOperands

_Q8 = OperandCode.TENSOR_QUANT8_ASYMM
_QUANTIZED = (_Q8, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)


def _wide(output: Typed, a: Typed, b: Typed) -> bool:
    """True if output scale > scale of a * scale of b, in float32 arithmetic as in Android."""
    return bool(np.float32(output.scale) > np.float32(a.scale) * np.float32(b.scale))


def product_scale_below_3(first: str, second: str) -> Rule:
    """Require level 3 for TENSOR_QUANT8_ASYMM if output scale <= product of input scales."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        types = use.typing.types
        plain = types["T"] is _Q8 and types.get("W", _Q8) is _Q8
        if not plain or _wide(use["output"], use[first], use[second]):
            return None
        return RequiredLevel(3, f"with output scale <= {first} scale * {second} scale")

    return rule


def product_scale(use: RuleOperands) -> RequiredLevel | None:
    """Require quantized output scale > product of the inputs' scales, at every level."""
    quantized = use.typing.types["T"] in _QUANTIZED
    if quantized and not _wide(use["output"], use["input1"], use["input2"]):
        raise Reject(
            Reason.QUANTIZATION,
            f"{use.operation} takes an output scale > input1 scale * input2 scale, "
            f"not {use['output'].scale:g} for {use['input1'].scale:g} * {use['input2'].scale:g}",
        )
    return None


def channel_dim(dim: int) -> Rule:
    """Require per-channel scales of a filter to lie along dimension `dim`."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        per_channel = use.typing.types["W"] is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        found = use["filter"].channel_dim
        if per_channel and found != dim:
            where = "no dimension" if found is None else f"dimension {found}"
            raise Reject(
                Reason.QUANTIZATION,
                f"{use.operation}.filter takes scales along dimension {dim}, not along {where}",
            )
        return None

    return rule


def zero_padding_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require level 3 for padding with zero point != 0: earlier levels pad with stored 0."""
    if use.typing.types["T"] is _Q8 and use["input"].zero_point != 0:
        return RequiredLevel(3, f"with zero point {use['input'].zero_point}")
    return None


def softmax_rank_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require level 3 for ranks other than 2 and 4 without an axis."""
    rank = use["input"].rank
    if "axis" in use.operands or rank in (None, 2, 4):
        return None
    return RequiredLevel(3, f"of rank {rank}")


def same_quantization_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require level 3 if an input's scale or zero point differs from the output's."""
    if use.typing.types["T"] is _Q8 and not all(
        _same_quantization(i, use["output"]) for i in use.operands["inputs"]
    ):
        return RequiredLevel(3, "of different scales or zero points")
    return None


def same_quantization(name: str) -> Rule:
    """Require quantized operands `name` to have the output's scale and zero point."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        output = use["output"]
        if use.typing.types["T"] in _QUANTIZED:
            for operand in use.operands[name]:
                if not _same_quantization(operand, output):
                    raise Reject(
                        Reason.QUANTIZATION,
                        f"{use.operation}.{name} and output take the same quantization, not "
                        f"{_quantization(operand)} and {_quantization(output)}",
                    )
        return None

    return rule


def _same_quantization(a: Typed, b: Typed) -> bool:
    same_scale = np.float32(a.scale) == np.float32(b.scale)
    return bool(same_scale) and a.zero_point == b.zero_point


def _quantization(operand: Typed) -> str:
    return f"{operand.scale:g} from {operand.zero_point}"


def same_shape(use: RuleOperands) -> RequiredLevel | None:
    """Require equal shapes of input and output, as far as known."""
    before, after = use["input"].dimensions, use["output"].dimensions
    if before and after and 0 not in after and before != after:
        raise Reject(
            Reason.SHAPE, f"{use.operation} keeps the shape {list(before)}, not {list(after)}"
        )
    return None


def same_rank(use: RuleOperands) -> RequiredLevel | None:
    """Require equal ranks of input and output, as far as known."""
    before, after = use["input"].rank, use["output"].rank
    if None not in (before, after) and before != after:
        raise Reject(Reason.RANK, f"{use.operation} keeps the rank {before}, not {after}")
    return None


def packed_rank(use: RuleOperands) -> RequiredLevel | None:
    """Require inputs of equal rank, one less than the output's."""
    ranks = {operand.rank for operand in use.operands["inputs"]} - {None}
    output = use["output"].rank
    if output is not None:
        ranks.add(output - 1)
    if len(ranks) > 1:
        raise Reject(
            Reason.RANK,
            f"{use.operation} takes inputs of one rank and an output of one more, "
            f"not {sorted(r for r in ranks if r is not None)} + 1",
        )
    return None


def paddings_shape(use: RuleOperands) -> RequiredLevel | None:
    """Require `paddings` to have shape [rank of input, 2]."""
    paddings, rank = use["paddings"].dimensions, use["input"].rank
    if not paddings:
        return None
    wrong_rank = rank is not None and paddings[0] not in (0, rank)
    if wrong_rank or paddings[1] not in (0, 2):
        wanted = "rank of input" if rank is None else rank
        raise Reject(
            Reason.SHAPE,
            f"{use.operation}.paddings takes shape [{wanted}, 2], not {list(paddings)}",
        )
    return None


def one_element(name: str) -> Rule:
    """Require operand `name` to have shape [1]."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        dimensions = use[name].dimensions
        if dimensions and dimensions not in ((0,), (1,)):
            raise Reject(
                Reason.SHAPE, f"{use.operation}.{name} takes shape [1], not {list(dimensions)}"
            )
        return None

    return rule


def fully_connected_shapes(use: RuleOperands) -> RequiredLevel | None:
    """Require `weights` [units, size], an input size divisible by `size`, `bias` [units]."""
    known = [use[name].dimensions for name in ("input", "weights", "bias")]
    if not all(known):
        return None
    (rows, (units, size), (biases,)) = known
    if size and prod(rows) % size:
        raise Reject(
            Reason.SHAPE, f"{use.operation}.input {list(rows)} does not divide into rows of {size}"
        )
    if 0 not in (units, biases) and units != biases:
        raise Reject(Reason.SHAPE, f"{use.operation}.bias has {biases} numbers for {units} units")
    return None
