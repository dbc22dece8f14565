"""Rules of Android's own kernels beyond what Android validates, for the rows of `spec.py`.

A model that breaks one of them is accepted by Android and then fails at run time, or never ends.
Lowerings keep to the rules; nnapi-reference computes these operations.
Source: Android 8.1 to 13, cpu_operations (`execute`) and TensorFlow Lite's kernels beneath it, by
their code and on the systems.
"""

from __future__ import annotations

import numpy as np

from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.errors import Reason, Reject
from ep_nnapi.nnapi.signature import RequiredLevel, Rule, RuleOperands

_Q8 = OperandCode.TENSOR_QUANT8_ASYMM
_QUANTIZED = (_Q8, OperandCode.TENSOR_QUANT8_ASYMM_SIGNED)
_MOST_CHANNELS = {1: 1024, 2: 2048, 3: 4832}
"""Greatest number of output channels of DEPTHWISE_CONV_2D by level; with more the loop never ends.
That of 8-bit numbers is `_MOST_CHANNELS_8BIT` from level 2 on."""
_MOST_CHANNELS_8BIT = 2048
_FREE_LEVEL = 4
"""The first level whose DEPTHWISE_CONV_2D has no such limits."""


def not_of(code: OperandCode) -> Rule:
    """Refuse operands of a type that Android validates and has no kernel for."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        if use.typing.types["T"] is code:
            detail = f"Android validates {use.operation} of {code.name} and has no kernel for it"
            raise Reject(Reason.DTYPE, detail)
        return None

    return rule


def sum_scale(use: RuleOperands) -> RequiredLevel | None:
    """Refuse a quantized output scale below 2^-19 of the inputs' greatest scale."""
    greatest = max(np.float32(use[f"input{i}"].scale) for i in (1, 2))
    output = np.float32(use["output"].scale)
    if use.typing.types["T"] in _QUANTIZED and not 2 * float(greatest) < 2**20 * float(output):
        detail = f"an output scale of {output:g} for inputs of scales up to {greatest:g}"
        raise Reject(Reason.QUANTIZATION, f"{use.operation} has no kernel for {detail}")
    return None


def fixed_point(integer_bits: int) -> Rule:
    """Refuse a quantized input scale below the step of a fixed-point number of 31 bits."""

    def rule(use: RuleOperands) -> RequiredLevel | None:
        scale = np.float32(use["input"].scale)
        quantized = use.typing.types["T"] in _QUANTIZED
        if quantized and not float(scale) * 2 ** (31 - integer_bits) > 1:
            detail = f"{use.operation} has no kernel for an input scale of {scale:g}"
            raise Reject(Reason.QUANTIZATION, detail)
        return None

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


def depthwise_on_2x2(use: RuleOperands) -> RequiredLevel | None:
    """Require level 4 for the 8-bit kernel of 3 x 3 that writes past an output of one element.

    It does so for inputs of 2 x 2, in either layout, with 16 channels or more.
    """
    types = use.typing.types
    before, taps, after = (use[name].dimensions for name in ("input", "filter", "output"))
    if types["T"] is not _Q8 or types["W"] is not _Q8 or not (before and taps and after):
        return None
    small = sorted(before[1:])[:2] == [2, 2] and sorted(after[1:])[:2] == [1, 1]
    if not small or taps[1:3] != (3, 3) or taps[3] < 16:
        return None
    return RequiredLevel(4, "of 3 x 3 on 2 x 2, where earlier kernels write past the output,")
