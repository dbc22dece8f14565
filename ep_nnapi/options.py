"""Table of options, the source of the Python keywords, provider options and CLI flags."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache

from ep_nnapi import option_parsers as values
from ep_nnapi.errors import OptionError
from ep_nnapi.target import (
    NnapiFlag,
    RuleSet,
    Target,
)

logger = logging.getLogger(__name__)

HOST = "host"


class Fallback(StrEnum):
    """Where a cluster runs after its device has failed."""

    REFERENCE = "reference"
    CPU = "cpu"
    NONE = "none"


class DynamicShapes(StrEnum):
    """Treatment of symbolic dimensions: compile for each run's sizes, or reject them."""

    SPECIALIZE = "specialize"
    OFF = "off"


class Partitioning(StrEnum):
    """Selection among the capable nodes: all, or those estimated to be worth it."""

    MAXIMAL = "maximal"
    WORTH_IT = "worth_it"


class Relaxed(StrEnum):
    """Host computation of float32 under USE_FP16: rounded to float16 (emulate), or not."""

    EMULATE = "emulate"
    PRECISE = "precise"


SHAPE_CACHE = 4
"""Default number of input size sets that a cluster is cached for in compiled form.

Each has its own packed weights. Few models need more (a batch of one and of many, two image
orientations); those that do see too many sizes to cache."""


@dataclass(frozen=True, slots=True)
class Options:
    """The validated options. `feature_level` None means the runtime's own level."""

    flags: NnapiFlag = NnapiFlag.NONE
    feature_level: int | None = None
    runtime: str = HOST
    device: str | None = None
    target: RuleSet = RuleSet.EP_NNAPI
    fallback: Fallback = Fallback.REFERENCE
    partitioning: Partitioning = Partitioning.MAXIMAL
    calibration: str | None = None
    exclude: tuple[str, ...] = ()
    partitioning_stop_ops: tuple[str, ...] = ()
    min_cluster_nodes: int = 1
    max_clusters: int | None = None
    dynamic_shapes: DynamicShapes = DynamicShapes.SPECIALIZE
    shape_cache: int = SHAPE_CACHE
    fix: values.FixedSizes = ()
    relaxed: Relaxed = Relaxed.EMULATE
    custom_ops_library: str | None = None

    def lowering_target(self, runtime_level: int) -> Target:
        """The target for a runtime of that feature level.

        Raises OptionError if `feature_level` is above `runtime_level`.
        """
        level = self.feature_level if self.feature_level is not None else runtime_level
        if level > runtime_level:
            raise OptionError(
                f"feature_level is {level}, but the runtime offers {runtime_level}; ask for less"
            )
        return Target(level, _flags_at(self.flags, level), self.target)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, its parser for strings and Python values, and its CLI help.

    provider  True for a provider option, False for one of sessions that this package creates
    """

    name: str
    parse: Callable[[object], object]
    metavar: str
    help: str
    provider: bool = True


def _flags_at(flags: NnapiFlag, level: int) -> NnapiFlag:
    """The flags without those that feature levels 1 and 2 do not support."""
    late = flags & (NnapiFlag.CPU_DISABLED | NnapiFlag.USE_NCHW)
    if late and level < 3:
        _warn_of_ignored(late, level)
        flags &= ~late
    return flags


@cache  # warns once per process: a session's options are read more than once
def _warn_of_ignored(flags: NnapiFlag, level: int) -> None:
    logger.warning("flag %s needs feature level 3; ignored at %d", values.flag_names(flags), level)


OPTIONS: tuple[Option, ...] = (
    Option(
        "flags",
        values.flags,
        "FLAGS",
        "a sum or |-separated names of USE_FP16, USE_NCHW, CPU_DISABLED, CPU_ONLY (default 0)",
    ),
    Option(
        "feature_level",
        values.feature_level,
        "N",
        "lower for NNAPI feature level 1 to 8 (default: the runtime's own)",
    ),
    Option("api_level", values.api_level, "N", "the same as an Android API level, 27 to 31"),
    Option("runtime", values.only("runtime", HOST), "RUNTIME", "the NNAPI runtime: host (default)"),
    Option(
        "device", values.device, "NAME", "the NNAPI device by name (default: the runtime's choice)"
    ),
    Option(
        "target",
        values.one_of("target", RuleSet),
        "RULES",
        "whose rules decide: ep-nnapi (default) or builtin-nnapi, ONNX Runtime's own provider's",
    ),
    Option(
        "fallback",
        values.one_of("fallback", Fallback),
        "WHERE",
        "where a cluster runs after its device failed: reference (default), cpu or none (an error)",
    ),
    Option(
        "partitioning",
        values.one_of("partitioning", Partitioning),
        "HOW",
        "maximal (default) takes all it can, worth_it leaves what is estimated faster on the CPU",
    ),
    Option(
        "calibration",
        values.path("calibration"),
        "FILE",
        "estimate by this calibration of the device, which ep_nnapi.calibrate wrote",
    ),
    Option(
        "exclude",
        values.names("exclude"),
        "NAMES",
        "comma-separated node names or operator types to leave to the CPU provider",
    ),
    Option(
        "partitioning_stop_ops",
        values.names("partitioning_stop_ops"),
        "OPS",
        "comma-separated operator types that stay on the CPU with everything after them",
    ),
    Option(
        "min_cluster_nodes",
        values.count("min_cluster_nodes"),
        "N",
        "leave clusters of fewer nodes to the CPU, a QDQ group counted as one (default 1)",
    ),
    Option(
        "max_clusters",
        values.count("max_clusters"),
        "N",
        "keep the clusters estimated to save the most time, at most so many a graph (default: all)",
    ),
    Option(
        "dynamic_shapes",
        values.one_of("dynamic_shapes", DynamicShapes),
        "HOW",
        "symbolic sizes: specialize (default) compiles for the sizes of each run, off refuses them",
    ),
    Option(
        "shape_cache",
        values.count("shape_cache"),
        "N",
        f"sets of sizes that a cluster is kept compiled for (default {SHAPE_CACHE})",
    ),
    Option(
        "fix",
        values.fix,
        "NAME=SIZES",
        "sizes of an input (name=1,3,224,224) or of a symbol (batch=1), also in what is prepared; "
        "more after a ;",
    ),
    Option(
        "relaxed",
        values.one_of("relaxed", Relaxed),
        "HOW",
        "USE_FP16 on the host: emulate (default) rounds to float16 between operations, precise not",
    ),
    Option(
        "custom_ops_library",
        values.path("custom_ops_library"),
        "FILE",
        "shared library of custom operators (check, run, prepare; other sessions register it)",
        provider=False,
    ),
)
_BY_NAME = {o.name: o for o in OPTIONS}


def parse(given: Mapping[str, object]) -> Options:
    """Parses options from names and values (Python objects or strings).

    Raises OptionError for an unknown name, a malformed value or a conflict.
    """
    chosen: dict[str, object] = {}
    for name, value in given.items():
        option = _BY_NAME.get(name)
        if option is None:
            known = ", ".join(o.name for o in OPTIONS)
            raise OptionError(f"option {name!r} is unknown; there are {known}")
        chosen[name] = option.parse(value)
    if "api_level" in chosen:
        if "feature_level" in chosen:
            raise OptionError("feature_level and api_level are both given; give one of them")
        chosen["feature_level"] = chosen.pop("api_level")
    return Options(**chosen)  # type: ignore[arg-type]


def to_strings(options: Options) -> dict[str, str]:
    """The options that differ from the defaults, as ONNX Runtime provider option strings."""
    default = Options()
    strings = {}
    for f in fields(Options):
        value = getattr(options, f.name)
        if value != getattr(default, f.name):
            strings[f.name] = _text(value)
    return strings


def _text(value: object) -> str:
    if isinstance(value, NnapiFlag):
        return values.flag_names(value)
    if isinstance(value, tuple) and all(isinstance(v, str) for v in value):
        return ",".join(value)
    if isinstance(value, tuple):
        return ";".join(f"{name}={','.join(map(str, sizes))}" for name, sizes in value)
    return str(value)
