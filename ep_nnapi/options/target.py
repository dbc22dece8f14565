"""Target of a lowering: feature level, flags and rule set."""

from __future__ import annotations

from enum import IntFlag, StrEnum
from functools import cache

from ep_nnapi.nnapi.errors import OptionError, module_logger
from ep_nnapi.nnapi.immutable import frozen

logger = module_logger(__name__)

MAX_FEATURE_LEVEL = 8
DEQUANTIZED_BYTES = 1 << 30
"""Default of `max_dequantized_bytes`: a vocabulary of 150,000 words with 1,700 numbers each."""
_LEVEL_OF_API = {27: 1, 28: 2, 29: 3, 30: 4, 31: 5}  # levels 6 to 8 have no API level


class NnapiFlag(IntFlag):
    """The flags of ONNX Runtime's NNAPI provider, with the same values."""

    NONE = 0
    USE_FP16 = 1
    USE_NCHW = 2
    CPU_DISABLED = 4
    CPU_ONLY = 8


def flag_names(flags: NnapiFlag) -> str:
    """The flags in the syntax of the option `flags`: names joined by |, "0" for none."""
    return "|".join(f.name or "" for f in flags) or "0"


def supported_flags(flags: NnapiFlag, feature_level: int) -> NnapiFlag:
    """The flags without those that feature levels 1 and 2 do not support."""
    unsupported = flags & (NnapiFlag.CPU_DISABLED | NnapiFlag.USE_NCHW)
    if unsupported and feature_level < 3:
        _warn_of_ignored(unsupported, feature_level)
        flags &= ~unsupported
    return flags


@cache  # warns once per process: a session's options are read more than once
def _warn_of_ignored(flags: NnapiFlag, level: int) -> None:
    logger.warning("flag %s needs feature level 3; ignored at %d", flag_names(flags), level)


class RuleSet(StrEnum):
    """The rules that decide which nodes are accepted."""

    EP_NNAPI = "ep-nnapi"
    BUILTIN = "builtin-nnapi"


@frozen
class Target:
    """Feature level 1 to 8, provider flags and rule set.

    profiled                a device profile says what the device computes
    max_dequantized_bytes   most bytes that weights of a few bits may take as floats, for each node
    checking                what runs the clusters checks the numbers of their INT64 inputs
    """

    feature_level: int = MAX_FEATURE_LEVEL
    flags: NnapiFlag = NnapiFlag.NONE
    rules: RuleSet = RuleSet.EP_NNAPI
    profiled: bool = False
    max_dequantized_bytes: int = DEQUANTIZED_BYTES
    checking: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.feature_level <= MAX_FEATURE_LEVEL:
            raise OptionError(
                f"feature_level is {self.feature_level}; it must be 1 to {MAX_FEATURE_LEVEL}"
            )

    @property
    def kernel_level(self) -> int:
        """The level whose kernels of Android's own must do; the newest where a profile decides."""
        return MAX_FEATURE_LEVEL if self.profiled else self.feature_level

    @property
    def checks_numbers(self) -> bool:
        """True if INT64 inputs may be supposed to have numbers for which arithmetic fits INT32."""
        return self.checking and self.rules is RuleSet.EP_NNAPI

    @property
    def nchw(self) -> bool:
        """True if convolutions keep the NCHW layout (the USE_NCHW flag)."""
        return bool(int(self.flags) & int(NnapiFlag.USE_NCHW))  # `in` takes ten times as long

    @property
    def relaxed(self) -> bool:
        """True if float32 may be computed as float16: the USE_FP16 flag, from level 2 on.

        Source: NDK ANeuralNetworksModel_relaxComputationFloat32toFloat16.
        """
        return NnapiFlag.USE_FP16 in self.flags and self.feature_level > 1


def feature_level_of_api(api_level: int) -> int:
    """The feature level of an Android API level, 27 to 31; raises OptionError for others."""
    if api_level not in _LEVEL_OF_API:
        raise OptionError(
            f"api_level is {api_level}; it must be 27 to 31 (beyond 31 use feature_level)"
        )
    return _LEVEL_OF_API[api_level]
