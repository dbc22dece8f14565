"""The table of options: Python keywords, ORT option strings and CLI flags come from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache, reduce
from operator import or_
from typing import TypeAlias

from ep_nnapi.rejection import OptionError
from ep_nnapi.target import (
    MAX_FEATURE_LEVEL,
    NnapiFlag,
    RuleSet,
    Target,
    feature_level_of_api,
)

logger = logging.getLogger(__name__)

HOST = "host"


class Fallback(StrEnum):
    """Where a cluster runs after its device failed."""

    REFERENCE = "reference"
    CPU = "cpu"
    NONE = "none"


class DynamicShapes(StrEnum):
    """What becomes of symbolic sizes."""

    SPECIALIZE = "specialize"
    OFF = "off"


Fixed: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Sizes of inputs by name."""

SHAPE_CACHE = 4
"""Sets of sizes kept compiled: each holds its own packed weights, and models that see more than a
few sizes (batches of one and of many, two orientations of an image) see too many to keep."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose, checked. `feature_level` None means the runtime's own level."""

    flags: NnapiFlag = NnapiFlag.NONE
    feature_level: int | None = None
    runtime: str = HOST
    device: str | None = None
    target: RuleSet = RuleSet.EP_NNAPI
    fallback: Fallback = Fallback.REFERENCE
    exclude: tuple[str, ...] = ()
    partitioning_stop_ops: tuple[str, ...] = ()
    min_cluster_nodes: int = 1
    max_clusters: int | None = None
    dynamic_shapes: DynamicShapes = DynamicShapes.SPECIALIZE
    shape_cache: int = SHAPE_CACHE
    fix: Fixed = ()

    def lowering_target(self, runtime_level: int) -> Target:
        """The target under a runtime of that level; raises OptionError when it is too low."""
        level = self.feature_level if self.feature_level is not None else runtime_level
        if level > runtime_level:
            raise OptionError(
                f"feature_level is {level}, but the runtime offers {runtime_level}; ask for less"
            )
        return Target(level, _flags_at(self.flags, level), self.target)


@dataclass(frozen=True, slots=True)
class Option:
    """One row: how a string or a Python value becomes the option's value, and how it is written."""

    name: str
    parse: Callable[[object], object]
    metavar: str
    help: str


def _flags_at(flags: NnapiFlag, level: int) -> NnapiFlag:
    """The flags without those that Android's feature level 1 and 2 lack."""
    late = flags & (NnapiFlag.CPU_DISABLED | NnapiFlag.USE_NCHW)
    if late and level < 3:
        _warn_of_ignored(late, level)
        flags &= ~late
    return flags


@cache  # once in a process: a session's options are looked at more than once
def _warn_of_ignored(flags: NnapiFlag, level: int) -> None:
    logger.warning("flag %s needs feature level 3; ignored at %d", _flag_names(flags), level)


def _flag_names(flags: NnapiFlag) -> str:
    return "|".join(f.name or "" for f in flags) or "0"


def _integer(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    try:
        return int(str(value).strip(), 0)
    except ValueError:
        raise OptionError(f"{name} is {value!r}; it must be a whole number") from None


def _flags(value: object) -> NnapiFlag:
    known = {f.name: f for f in NnapiFlag}
    text = str(value).strip()
    if isinstance(value, int) or text.lstrip("-").isdigit() or text.startswith("0x"):
        number = _integer("flags", value)
        if number < 0 or number & ~int(reduce(or_, NnapiFlag)):
            raise OptionError(f"flags is {number}; it must be a sum of {_sum_of_flags()}")
        flags = NnapiFlag(number)
    else:
        names = [part.strip() for part in text.split("|")] if text else []
        for name in names:
            if name not in known:
                raise OptionError(f"flag {name!r} is unknown; there are {_sum_of_flags()}")
        flags = reduce(or_, (known[name] for name in names), NnapiFlag.NONE)
    if NnapiFlag.CPU_DISABLED in flags and NnapiFlag.CPU_ONLY in flags:
        raise OptionError("flags CPU_DISABLED and CPU_ONLY exclude each other; give one of them")
    return flags


def _sum_of_flags() -> str:
    return ", ".join(f"{f.name} ({int(f)})" for f in NnapiFlag)


def _feature_level(value: object) -> int:
    level = _integer("feature_level", value)
    if not 1 <= level <= MAX_FEATURE_LEVEL:
        raise OptionError(f"feature_level is {level}; it must be 1 to {MAX_FEATURE_LEVEL}")
    return level


def _api_level(value: object) -> int:
    return feature_level_of_api(_integer("api_level", value))


def _runtime(value: object) -> str:
    if value != HOST:
        raise OptionError(f"runtime is {str(value)!r}; this version has only {HOST!r}")
    return HOST


def _device(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _target(value: object) -> RuleSet:
    if value not in list(RuleSet):
        raise OptionError(f"target is {str(value)!r}; it must be one of {', '.join(RuleSet)}")
    return RuleSet(str(value))


def _fallback(value: object) -> Fallback:
    if value not in list(Fallback):
        raise OptionError(f"fallback is {str(value)!r}; it must be one of {', '.join(Fallback)}")
    return Fallback(str(value))


def _names(option: str) -> Callable[[object], tuple[str, ...]]:
    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, tuple | list):
            raise OptionError(f"{option} is {value!r}; it must be names separated by commas")
        names = tuple(str(p).strip() for p in parts if str(p).strip())
        for name in names:
            if "," in name:
                raise OptionError(f"{option} has {name!r}, but a comma separates names")
        return names

    return parse


def _count(option: str) -> Callable[[object], int]:
    def parse(value: object) -> int:
        number = _integer(option, value)
        if number < 1:
            raise OptionError(f"{option} is {number}; it must be 1 or more")
        return number

    return parse


def _dynamic_shapes(value: object) -> DynamicShapes:
    if value not in list(DynamicShapes):
        known = ", ".join(DynamicShapes)
        raise OptionError(f"dynamic_shapes is {str(value)!r}; it must be one of {known}")
    return DynamicShapes(str(value))


def _fix(value: object) -> Fixed:
    """`x=1,3,224,224;y=8`, several such strings, or a mapping from names to sizes."""
    if isinstance(value, Mapping):
        return tuple((str(name), _sizes(str(name), sizes)) for name, sizes in value.items())
    if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(pair for text in value for pair in _fix(text))
    if not isinstance(value, str):
        raise OptionError(f"fix is {value!r}; write name=1,3,224,224")
    found = []
    for part in filter(None, value.split(";")):
        name, equals, sizes = part.rpartition("=")
        if not equals or not name:
            raise OptionError(f"fix is {part!r}; write name=1,3,224,224")
        found.append((name, _sizes(name, sizes.split(","))))
    return tuple(found)


def _sizes(name: str, given: object) -> tuple[int, ...]:
    if not isinstance(given, list | tuple):
        raise OptionError(f"fix of {name} is {given!r}; it must be sizes such as (1, 3, 224, 224)")
    sizes = tuple(_integer(f"fix of {name}", size) for size in given)
    if any(size < 1 for size in sizes):
        raise OptionError(f"fix of {name} is {list(sizes)}; sizes are 1 or more")
    return sizes


OPTIONS: tuple[Option, ...] = (
    Option(
        "flags",
        _flags,
        "FLAGS",
        "a sum or |-separated names of USE_FP16, USE_NCHW, CPU_DISABLED, CPU_ONLY (default 0)",
    ),
    Option(
        "feature_level",
        _feature_level,
        "N",
        "lower for NNAPI feature level 1 to 8 (default: the runtime's own)",
    ),
    Option("api_level", _api_level, "N", "the same as an Android API level, 27 to 31"),
    Option("runtime", _runtime, "RUNTIME", "the NNAPI runtime: host (default)"),
    Option("device", _device, "NAME", "the NNAPI device by name (default: the runtime's choice)"),
    Option(
        "target",
        _target,
        "RULES",
        "whose rules decide: ep-nnapi (default) or builtin-nnapi, ONNX Runtime's own provider's",
    ),
    Option(
        "fallback",
        _fallback,
        "WHERE",
        "where a cluster runs after its device failed: reference (default), cpu or none (an error)",
    ),
    Option(
        "exclude",
        _names("exclude"),
        "NAMES",
        "comma-separated node names or operator types to leave to the CPU provider",
    ),
    Option(
        "partitioning_stop_ops",
        _names("partitioning_stop_ops"),
        "OPS",
        "comma-separated operator types that stay on the CPU with everything after them",
    ),
    Option(
        "min_cluster_nodes",
        _count("min_cluster_nodes"),
        "N",
        "leave clusters of fewer nodes to the CPU (default 1)",
    ),
    Option(
        "max_clusters",
        _count("max_clusters"),
        "N",
        "keep the clusters with the most work, at most so many (default: all)",
    ),
    Option(
        "dynamic_shapes",
        _dynamic_shapes,
        "HOW",
        "symbolic sizes: specialize (default) compiles for the sizes of each run, off refuses them",
    ),
    Option(
        "shape_cache",
        _count("shape_cache"),
        "N",
        f"sets of sizes that a cluster is kept compiled for (default {SHAPE_CACHE})",
    ),
    Option(
        "fix",
        _fix,
        "NAME=SIZES",
        "judge an input's symbolic sizes as these: name=1,3,224,224, several separated by ;",
    ),
)
_BY_NAME = {o.name: o for o in OPTIONS}


def parse(given: Mapping[str, object]) -> Options:
    """The options that names and values (of Python or as strings) stand for.

    Raises OptionError for an unknown name, a malformed value or a conflict.
    """
    values: dict[str, object] = {}
    for name, value in given.items():
        option = _BY_NAME.get(name)
        if option is None:
            known = ", ".join(o.name for o in OPTIONS)
            raise OptionError(f"option {name!r} is unknown; there are {known}")
        values[name] = option.parse(value)
    if "api_level" in values:
        if "feature_level" in values:
            raise OptionError("feature_level and api_level are both given; give one of them")
        values["feature_level"] = values.pop("api_level")
    return Options(**values)  # type: ignore[arg-type]


def to_strings(options: Options) -> dict[str, str]:
    """The options that differ from the defaults, as ONNX Runtime's provider options."""
    default = Options()
    strings = {}
    for f in fields(Options):
        value = getattr(options, f.name)
        if value != getattr(default, f.name):
            strings[f.name] = _text(value)
    return strings


def _text(value: object) -> str:
    if isinstance(value, NnapiFlag):
        return _flag_names(value)
    if isinstance(value, tuple) and all(isinstance(v, str) for v in value):
        return ",".join(value)
    if isinstance(value, tuple):
        return ";".join(f"{name}={','.join(map(str, sizes))}" for name, sizes in value)
    return str(value)
