"""Constraints between the operands of an operation, checked when a model is finished.

Source: the operations' entries in NeuralNetworksTypes.h, as far as Android checks them before a
model is compiled. Unknown dimensions pass; they are checked at run time, when they are known.
A rule returns the feature level it needs, if any, or raises Reject.

Kernel rules are what Android's own kernels need beyond that: a model that breaks one is accepted by
Android and then fails at run time, or never ends. Lowerings keep to them; nnapi-reference computes
these operations. Source: Android 8.1 to 13, cpu_operations (`execute`) and TensorFlow Lite's
kernels beneath it, by their code and on the systems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.immutable import frozen

if TYPE_CHECKING:
    from ep_nnapi.nnapi.signature import Typing


class Typed(Protocol):
    """Operand properties that signature matching uses."""

    @property
    def kind(self) -> object:
        """Hashable key that determines `omitted` and `fits`."""

    @property
    def rank(self) -> int | None:
        """Rank: 0 for scalars, None if unknown."""

    @property
    def omitted(self) -> bool:
        """True if the operand is an omitted optional one."""

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes, 0 if unknown; () for unknown rank and for scalars."""

    @property
    def scale(self) -> float:
        """Per-tensor scale; 0 if there is none."""

    @property
    def zero_point(self) -> int:
        """Per-tensor zero point; 0 if there is none."""

    @property
    def channel_dim(self) -> int | None:
        """Axis of per-channel scales; None if not quantized per channel."""

    def fits(self, code: OperandCode) -> bool:
        """Return True if it has, or can be converted to, operand type `code`."""

    def describe(self) -> str:
        """Name and type for a message, such as "x is TENSOR_FLOAT16"."""


@frozen
class RequiredLevel:
    """Feature that needs a higher level than the types do; message: "<operation> <what>"."""

    level: int
    what: str


@frozen
class RuleOperands:
    """An operation's operands by name, as passed to rules."""

    operation: str
    typing: Typing
    operands: Mapping[str, Sequence[Typed]]

    def __getitem__(self, name: str) -> Typed:
        """The (first) operand of that name."""
        return self.operands[name][0]


OperationRule: TypeAlias = Callable[[RuleOperands], RequiredLevel | None]
"""A constraint between operands: returns the level it needs; raises Reject if no level fits."""
OF_QUANTIZED: set[OperationRule] = set()


def of_quantized(rule: OperationRule) -> OperationRule:
    """Mark a rule that accepts all operands of types without a scale; returns it."""
    OF_QUANTIZED.add(rule)
    return rule


_Q8 = OperandCode.TENSOR_QUANT8_ASYMM
_QUANTIZED = (_Q8, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)


def _float32(number: float) -> float:
    """The number rounded to float32; the build, which has no numpy, imports this too."""
    return c_float(number).value


def _wide(output: Typed, a: Typed, b: Typed) -> bool:
    """True if output scale > scale of a * scale of b, in float32 arithmetic as in Android."""
    return _float32(output.scale) > _float32(_float32(a.scale) * _float32(b.scale))


def product_scale_below_3(first: str, second: str) -> OperationRule:
    """Require level 3 for TENSOR_QUANT8_ASYMM if output scale <= product of input scales."""

    @of_quantized
    def rule(use: RuleOperands) -> RequiredLevel | None:
        types = use.typing.types
        plain = types["T"] is _Q8 and types.get("W", _Q8) is _Q8
        if not plain or _wide(use["output"], use[first], use[second]):
            return None
        return RequiredLevel(3, f"with output scale <= {first} scale * {second} scale")

    return rule


@of_quantized
def product_scale(use: RuleOperands) -> None:
    """Require quantized output scale > product of the inputs' scales, at every level."""
    quantized = use.typing.types["T"] in _QUANTIZED
    if quantized and not _wide(use["output"], use["input1"], use["input2"]):
        raise Reject(
            Reason.QUANTIZATION,
            f"{use.operation} takes an output scale > input1 scale * input2 scale, "
            f"not {use['output'].scale:g} for {use['input1'].scale:g} * {use['input2'].scale:g}",
        )


def channel_dim(dim: int) -> OperationRule:
    """Require per-channel scales of a filter to lie along dimension `dim`."""

    @of_quantized
    def rule(use: RuleOperands) -> None:
        per_channel = use.typing.types["W"] is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
        found = use["filter"].channel_dim
        if per_channel and found != dim:
            where = "no dimension" if found is None else f"dimension {found}"
            raise Reject(
                Reason.QUANTIZATION,
                f"{use.operation}.filter takes scales along dimension {dim}, not along {where}",
            )

    return rule


@of_quantized
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


def four_axes_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require the level whose kernel pads other ranks than 4, all of which Android 9 accepts."""
    rank = len(use["input"].dimensions)
    if rank in (0, 4):
        return None
    return RequiredLevel(3, f"of rank {rank}, which earlier kernels of Android's refuse,")


@of_quantized
def no_8_bit_kernel_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require the level whose 8-bit kernel is right; that of Android 9 is far off."""
    if use.typing.types["T"] is not _Q8:
        return None
    return RequiredLevel(3, "of 8-bit numbers, which earlier kernels of Android's get wrong,")


@of_quantized
def same_quantization_below_3(use: RuleOperands) -> RequiredLevel | None:
    """Require level 3 if an input's scale or zero point differs from the output's."""
    if use.typing.types["T"] is _Q8 and not all(
        _same_quantization(i, use["output"]) for i in use.operands["inputs"]
    ):
        return RequiredLevel(3, "of different scales or zero points")
    return None


def same_quantization(name: str) -> OperationRule:
    """Require quantized operands `name` to have the output's scale and zero point."""

    @of_quantized
    def rule(use: RuleOperands) -> None:
        output = use["output"]
        if use.typing.types["T"] in _QUANTIZED:
            for operand in use.operands[name]:
                if not _same_quantization(operand, output):
                    raise Reject(
                        Reason.QUANTIZATION,
                        f"{use.operation}.{name} and output take the same quantization, not "
                        f"{_quantization(operand)} and {_quantization(output)}",
                    )

    return rule


def _same_quantization(a: Typed, b: Typed) -> bool:
    same_scale = _float32(a.scale) == _float32(b.scale)
    return same_scale and a.zero_point == b.zero_point


def _quantization(operand: Typed) -> str:
    return f"{operand.scale:g} from {operand.zero_point}"


def same_shape(use: RuleOperands) -> None:
    """Require equal shapes of input and output, as far as known."""
    before, after = use["input"].dimensions, use["output"].dimensions
    if before and after and 0 not in after and before != after:
        raise Reject(
            Reason.SHAPE, f"{use.operation} keeps the shape {list(before)}, not {list(after)}"
        )


def same_rank(use: RuleOperands) -> None:
    """Require equal ranks of input and output, as far as known."""
    before, after = use["input"].rank, use["output"].rank
    if None not in (before, after) and before != after:
        raise Reject(Reason.RANK, f"{use.operation} keeps the rank {before}, not {after}")


def packed_rank(use: RuleOperands) -> None:
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


def paddings_shape(use: RuleOperands) -> None:
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


def one_element(name: str) -> OperationRule:
    """Require operand `name` to have shape [1]."""

    def rule(use: RuleOperands) -> None:
        dimensions = use[name].dimensions
        if dimensions and dimensions not in ((0,), (1,)):
            raise Reject(
                Reason.SHAPE, f"{use.operation}.{name} takes shape [1], not {list(dimensions)}"
            )

    return rule


def fully_connected_shapes(use: RuleOperands) -> None:
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


def square_rows(use: RuleOperands) -> RequiredLevel | None:
    """Require the level whose kernel multiplies as many rows as each has floats.

    Android 8.1 computes the first row of the result alone. Sizes that change pass.
    """
    rows, depth = use["input"].dimensions, use["weights"].dimensions[1:]
    known = {*map(type, (*rows, *depth))} == {int}  # not a `Size`: no condition comes of it
    if use.typing.types["T"] is not OperandCode.TENSOR_FLOAT32 or not known:
        return None
    if depth in ((), (0,), (1,)) or prod(rows) != depth[0] ** 2:
        return None
    what = f"of {depth[0]} rows of as many floats, which earlier kernels of Android's get wrong,"
    return RequiredLevel(2, what)


_MOST_CHANNELS = {1: 1024, 2: 2048, 3: 4832}
"""Greatest number of output channels of DEPTHWISE_CONV_2D by level; with more the loop never ends.
That of 8-bit numbers is `_MOST_CHANNELS_8BIT` from level 2 on."""
_MOST_CHANNELS_8BIT = 2048
_FREE_LEVEL = 4
"""The first level whose DEPTHWISE_CONV_2D has no such limits."""


def not_of(code: OperandCode) -> OperationRule:
    """Refuse operands of a type that Android validates and has no kernel for."""

    def rule(use: RuleOperands) -> None:
        if use.typing.types["T"] is code:
            detail = f"Android validates {use.operation} of {code.name} and has no kernel for it"
            raise Reject(Reason.DTYPE, detail)

    return rule


@of_quantized
def sum_scale(use: RuleOperands) -> None:
    """Refuse a quantized output scale below 2^-19 of the inputs' greatest scale."""
    greatest = max(_float32(use[f"input{i}"].scale) for i in (1, 2))
    output = _float32(use["output"].scale)
    if use.typing.types["T"] in _QUANTIZED and not 2 * greatest < 2**20 * output:
        detail = f"an output scale of {output:g} for inputs of scales up to {greatest:g}"
        raise Reject(Reason.QUANTIZATION, f"{use.operation} has no kernel for {detail}")


def fixed_point(integer_bits: int) -> OperationRule:
    """Refuse a quantized input scale below the step of a fixed-point number of 31 bits."""

    @of_quantized
    def rule(use: RuleOperands) -> None:
        scale = _float32(use["input"].scale)
        quantized = use.typing.types["T"] in _QUANTIZED
        if quantized and not scale * 2 ** (31 - integer_bits) > 1:
            detail = f"{use.operation} has no kernel for an input scale of {scale:g}"
            raise Reject(Reason.QUANTIZATION, detail)

    return rule


def depthwise_channels(use: RuleOperands) -> RequiredLevel | None:
    """Require the level whose kernel ends for this number of output channels."""
    if use.typing.types["W"] is OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
        return None  # a plain loop since it exists
    channels = (use["filter"].dimensions or (0,))[-1]
    limits = _MOST_CHANNELS
    if use.typing.types["T"] is _Q8:
        limits = {level: min(most, _MOST_CHANNELS_8BIT) for level, most in limits.items()}
    level = next((level for level, most in limits.items() if channels <= most), _FREE_LEVEL)
    what = f"of {channels} channels, which earlier kernels of Android's never finish,"
    return RequiredLevel(level, what)


@of_quantized
def depthwise_on_2x2(use: RuleOperands) -> RequiredLevel | None:
    """Require level 4 for the 8-bit kernel of 3 x 3 that writes past an output of one element.

    It does so for inputs of 2 x 2, in either layout, with 16 channels or more.
    """
    types = use.typing.types
    before, taps, after = (use[name].dimensions for name in ("input", "filter", "output"))
    if types["T"] is not _Q8 or types["W"] is not _Q8 or not (before and taps and after):
        return None
    if taps[1:3] != (3, 3) or taps[3] < 16 or after[2] != 1:  # a side of the image in any layout
        return None
    if sorted(before[1:])[:2] != [2, 2] or sorted(after[1:])[:2] != [1, 1]:
        return None
    return RequiredLevel(4, "of 3 x 3 on 2 x 2, where earlier kernels write past the output,")
