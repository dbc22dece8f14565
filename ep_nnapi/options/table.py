"""Table of options, the source of the Python keywords, provider options and CLI flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias, TypedDict, Unpack, cast

from ep_nnapi.nnapi.errors import OptionError, suggestion
from ep_nnapi.options import values
from ep_nnapi.options.fixed import Fix, FixedSizes, Numbers, contents_in, sizes_in_use
from ep_nnapi.options.fixed import fix as parse_fix
from ep_nnapi.options.settings import with_settings
from ep_nnapi.options.target import (
    DEQUANTIZED_BYTES,
    NnapiFlag,
    RuleSet,
    Target,
    supported_flags,
)
from ep_nnapi.options.values import Category, Option, to_text

HOST = "host"
SYSTEM = "system"
LITERT = "litert"
DEFAULT_RUNTIME = SYSTEM if hasattr(sys, "getandroidapilevel") else HOST
"""The runtime where none is chosen: Android's own library there, the host runtime elsewhere."""

_File: TypeAlias = str | os.PathLike[str] | None
_Names: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The validated options, declared here alone; `feature_level` None is the runtime's own."""

    flags: NnapiFlag = Category.TARGET.option(
        NnapiFlag.NONE,
        values.flags,
        "FLAGS",
        "a sum or |-separated names of USE_FP16, USE_NCHW, CPU_DISABLED, CPU_ONLY "
        "(default {default})",
    )
    feature_level: int | None = Category.TARGET.option(
        None,
        values.feature_level,
        "N",
        "lower for NNAPI feature level 1 to 8 (default: the runtime's own)",
        Option(
            name="api_level",
            parse=values.api_level,
            metavar="N",
            category=Category.TARGET,
            help="the same as an Android API level, 27 to 31",
        ),
    )
    runtime: str = Category.TARGET.option(
        DEFAULT_RUNTIME,
        values.name_or_path(HOST, SYSTEM, LITERT),
        "RUNTIME",
        "the runtime: host (default; on Android system), system or a libneuralnetworks.so; litert "
        "(extra `litert`) or a libLiteRt.so; adb or adb:SERIAL, that of an attached phone; "
        "exec:COMMAND, one behind nnapi_agent",
    )
    device: str | None = Category.TARGET.option(
        None,
        values.one_name,
        "NAME",
        "the NNAPI device by name, or the first of a type: accelerator, gpu, cpu (default: the "
        "first, CPUs last)",
    )
    device_profile: str | None = Category.TARGET.option(
        None,
        values.path,
        "FILE",
        "a device recorded by ep-nnapi profile or doctor: its answers decide, the host computes; "
        "another runtime's device is not given what doctor found it to compute wrongly",
    )
    target: RuleSet = Category.TARGET.option(
        RuleSet.EP_NNAPI,
        values.one_of(RuleSet),
        "RULES",
        "whose rules decide: ep-nnapi (default) or builtin-nnapi, ONNX Runtime's own provider's",
    )
    partitioning: values.Partitioning = Category.PARTITIONING.option(
        values.Partitioning.AUTO,
        values.one_of(values.Partitioning),
        "HOW",
        "maximal takes all it can; auto (default) leaves whole clusters, in sessions on the host: "
        "single nodes that only move bytes, and those that a calibration says are slower there; "
        "worth_it leaves what is estimated faster on the CPU",
    )
    calibration: str | None = Category.PARTITIONING.option(
        None,
        values.path,
        "FILE",
        "estimate by this calibration of the device, which ep_nnapi.calibrate wrote",
    )
    exclude: tuple[str, ...] = Category.PARTITIONING.option(
        (),
        values.names,
        "NAMES",
        "comma-separated node names or operator types to leave to the CPU provider",
    )
    partitioning_stop_ops: tuple[str, ...] = Category.PARTITIONING.option(
        (),
        values.names,
        "OPS",
        "comma-separated operator types that stay on the CPU with everything after them",
    )
    min_cluster_nodes: int = Category.PARTITIONING.option(
        1,
        values.count,
        "N",
        "leave clusters of fewer nodes to the CPU, a QDQ group counted as one (default {default})",
    )
    max_clusters: int | None = Category.PARTITIONING.option(
        None,
        values.count,
        "N",
        "keep the clusters estimated to save the most time, at most so many a graph (default: all)",
    )
    max_cluster_nodes: int | None = Category.PARTITIONING.option(
        None,
        values.count,
        "N",
        "split clusters of more nodes, a QDQ group counted as one (default: no limit)",
    )
    max_cluster_weight_bytes: int | None = Category.PARTITIONING.option(
        None,
        values.count,
        "BYTES",
        "split clusters with more bytes of constants (default: no limit)",
    )
    max_cluster_activation_bytes: int | None = Category.PARTITIONING.option(
        None,
        values.count,
        "BYTES",
        "split clusters whose nodes read and write more bytes (default: no limit)",
    )
    max_dequantized_bytes: int = Category.PARTITIONING.option(
        DEQUANTIZED_BYTES,
        values.count,
        "BYTES",
        "leave nodes of MatMulNBits, GatherBlockQuantized and of constants with a scale for each "
        "block to the CPU if these take more bytes as floats (default {default})",
    )
    dynamic_shapes: values.DynamicShapes = Category.SHAPES.option(
        values.DynamicShapes.SPECIALIZE,
        values.one_of(values.DynamicShapes),
        "HOW",
        "symbolic sizes: specialize (default) compiles for all at once, or for those of each run, "
        "off (default with target builtin-nnapi) refuses them",
    )
    shape_cache: int = Category.SHAPES.option(
        4,  # each has its own packed weights; few models need more (batch of one and of many)
        values.count,
        "N",
        "sets of sizes that a cluster is kept compiled for (default {default})",
    )
    new_sizes: int = Category.SHAPES.option(
        2,  # a batch of one and of many; each more costs as much as a hundred runs of a decoder
        values.count,
        "N",
        "sets of sizes that a cluster is compiled for when it meets them (default {default}), "
        "beside those of sizes; others when their runs on the CPU took as long as a compilation",
    )
    sizes: FixedSizes = Category.SHAPES.option(
        (),
        sizes_in_use,
        "NAME=SIZES",
        "sizes in use of a symbol (length=16,32,64), with which run, compare and tune run and "
        "worth_it estimates; where a device needs numbers, its runs are padded to them; more after "
        "a ;",
    )
    mask: str | None = Category.SHAPES.option(
        None,
        values.one_name,
        "NAME",
        "input that marks what is padding by 0, where runs are padded to sizes (default: none)",
    )
    fix: Fix = Category.SHAPES.option(
        (),
        parse_fix,
        "NAME=SIZES",
        "sizes of an input (name=1,3,224,224) or of a symbol (batch=1), also in what is prepared, "
        "where name:=16000 freezes an input to numbers; more after a ;",
    )
    fallback: values.Fallback = Category.EXECUTION.option(
        values.Fallback.REFERENCE,
        values.one_of(values.Fallback),
        "WHERE",
        "where a cluster runs after its device failed: reference (default), cpu or none (an error)",
    )
    relaxed: values.Relaxed = Category.EXECUTION.option(
        values.Relaxed.EMULATE,
        values.one_of(values.Relaxed),
        "HOW",
        "USE_FP16 on the host: emulate (default) rounds to float16 between operations, precise not",
    )
    preference: values.Preference = Category.EXECUTION.option(
        values.Preference.FAST_SINGLE_ANSWER,
        values.one_of(values.Preference),
        "WHAT",
        "what devices compile for: {default} (default), sustained_speed or low_power",
    )
    priority: values.Priority = Category.EXECUTION.option(
        values.Priority.MEDIUM,
        values.one_of(values.Priority),
        "WHICH",
        "priority on the device: low, {default} (default) or high",
    )
    compilation_timeout: float | None = Category.EXECUTION.option(
        None,
        values.seconds,
        "SECONDS",
        "time to compile a cluster; one that takes longer stays on the CPU (default: no limit)",
    )
    execution_timeout: float | None = Category.EXECUTION.option(
        None,
        values.seconds,
        "SECONDS",
        "time to run a cluster, after which its fallback runs (default: no limit)",
    )
    cache_dir: str | None = Category.EXECUTION.option(
        None,
        values.path,
        "DIR",
        "folder in which devices keep compiled models between sessions, and trials of prepared "
        "models are noted; sessions and processes may share it (default: none)",
    )
    receipt: str | None = Category.EXECUTION.option(
        None,
        values.path,
        "FILE",
        "write what ran where, as JSON, when the session ends (default: no file)",
    )
    prefer: tuple[values.Preferred, ...] = Category.EXECUTION.option(
        tuple(values.Preferred),
        values.preferred,
        "NAMES",
        "order of the alternatives of a prepared model, of which the first that works is taken: "
        "nnapi,litert-npu,litert-gpu,nnapi-cpu,litert-cpu,cpu (default); nnapi are accelerators, "
        "or the device that is named",
    )
    trial_timeout: float = Category.EXECUTION.option(
        30.0,
        values.time_limit,
        "SECONDS",
        "time to compile an alternative, and for its first run, before the next is tried "
        "(default {default})",
    )
    intra_op_num_threads: int | None = Category.EXECUTION.option(
        None,
        values.threads,
        "N",
        "threads of one run on host-cpu or litert-cpu (default: the session's, else one per core)",
    )
    instances: int = Category.EXECUTION.option(
        1,
        values.count,
        "N",
        "compiled models of a cluster on LiteRT, each with weights of its own: so many threads run "
        "it at once (default {default})",
    )
    spinning: values.Spinning = Category.EXECUTION.option(
        values.Spinning.AUTO,
        values.one_of(values.Spinning),
        "WHEN",
        "when idle threads of host-cpu wait actively: during runs, never, or auto (default): "
        "between runs too if one cluster is the whole model and the session lets threads spin",
    )
    custom_ops_library: str | None = Category.SESSIONS.option(
        None,
        values.path,
        "FILE",
        "shared library of custom operators (check, run, prepare; other sessions register it)",
    )

    @property
    def half(self) -> bool:
        """True if float32 may be computed as float16."""
        return NnapiFlag.USE_FP16 in self.flags

    def lowering_target(self, offered: int, by: str = "the runtime") -> Target:
        """The target for the feature level that the runtime or a device offers.

        Raises OptionError if `feature_level` is above `offered`.
        """
        level = self.feature_level if self.feature_level is not None else offered
        if level > offered:
            raise OptionError(f"feature_level is {level}, but {by} offers {offered}; ask for less")
        profiled = self.device_profile is not None and self.runtime in (HOST, DEFAULT_RUNTIME)
        flags, most = supported_flags(self.flags, level), self.max_dequantized_bytes
        return Target(level, flags, self.target, profiled, most)


class OptionKeywords(TypedDict, total=False):
    """Keyword arguments of all functions that take options.

    `Options` says what each means, its parser which values it takes; every value may be a string,
    as in ONNX Runtime's provider options.
    """

    flags: NnapiFlag | int | str
    feature_level: int | str
    api_level: int | str
    runtime: str | os.PathLike[str]
    device: str | None
    device_profile: _File
    target: str
    partitioning: str
    calibration: _File
    exclude: _Names
    partitioning_stop_ops: _Names
    min_cluster_nodes: int | str
    max_clusters: int | str
    max_cluster_nodes: int | str
    max_cluster_weight_bytes: int | str
    max_cluster_activation_bytes: int | str
    max_dequantized_bytes: int | str
    dynamic_shapes: str
    shape_cache: int | str
    new_sizes: int | str
    sizes: str | Sequence[str] | Mapping[str, int | Sequence[int]]
    mask: str | None
    fix: str | Sequence[str] | Mapping[str, int | Sequence[int] | Numbers]
    fallback: str
    relaxed: str
    preference: str
    priority: str
    compilation_timeout: float | str | None
    execution_timeout: float | str | None
    cache_dir: _File
    receipt: _File
    prefer: _Names
    trial_timeout: float | str
    intra_op_num_threads: int | str
    instances: int | str
    spinning: str
    settings: _File
    custom_ops_library: _File


class PrepareKeywords(OptionKeywords, total=False):
    """Those of `prepare`: `preparation.job.job_of` says what each of its own means."""

    optimization_level: str
    format: str
    target_platform: str | None
    optimization_style: str
    enable_type_reduction: bool | str
    embed: bool | str
    partial: bool | str
    alternatives: _Names


def _declared() -> Iterator[Option]:
    for f in fields(Options):
        declared: Option = f.metadata["option"]
        yield replace(declared, name=f.name, field=f.name, alternative=None)
        if declared.alternative is not None:
            yield replace(declared.alternative, field=f.name)


SETTINGS = Option(
    name="settings",
    parse=values.path,
    metavar="FILE",
    category=Category.EXECUTION,
    help="settings that ep-nnapi tune wrote; options given beside it take precedence",
)
_DECLARED = tuple(_declared())
OPTIONS = (
    *(o for o in _DECLARED if o.provider),
    SETTINGS,
    *(o for o in _DECLARED if not o.provider),
)
"""All options, each alternative spelling after its option."""
_BY_NAME = {o.name: o for o in OPTIONS}


def parse(given: Mapping[str, object]) -> Options:
    """Parses options from names and values (Python objects or strings).

    The options in a file of `settings` are added to them. Raises OptionError for an unknown name, a
    malformed value, a conflict or invalid settings.
    """
    chosen: dict[str, object] = {}
    for name, value in with_settings(given, {o.name: o.field for o in OPTIONS}).items():
        if name not in _BY_NAME:
            near = suggestion(name, _BY_NAME)
            raise OptionError(f"option {name!r} is unknown; there are {', '.join(_BY_NAME)}{near}")
        found = _BY_NAME[name]
        if found.field in chosen:
            both = " and ".join(o.name for o in OPTIONS if o.field == found.field)
            raise OptionError(f"{both} are both given; give one of them")
        chosen[found.field] = found.parse(name, value)
    if chosen.get("target") is RuleSet.BUILTIN:  # which takes no symbolic sizes
        chosen.setdefault("dynamic_shapes", values.DynamicShapes.OFF)
    return Options(**chosen)  # type: ignore[arg-type]


def options_of_session(given: Mapping[str, object]) -> Options:
    """Parses the options of a session of the user's own; raises OptionError."""
    options = parse(given)
    for name in contents_in(options.fix):
        raise OptionError(
            f"fix freezes {name}, and a session has all inputs of its model: use a model that "
            "prepare has written with it"
        )
    if options.custom_ops_library is not None:
        raise OptionError(
            "custom_ops_library is an option of check, run and prepare; in a session of your own, "
            "register it with SessionOptions.register_custom_ops_library"
        )
    return options


def to_strings(options: Options) -> dict[str, str]:
    """The options that differ from the defaults, as ONNX Runtime provider option strings."""
    chosen = {f.name: getattr(options, f.name) for f in fields(Options)}
    builtin = options.target is RuleSet.BUILTIN
    defaults = Options(dynamic_shapes=values.DynamicShapes.OFF) if builtin else Options()
    return {n: to_text(v) for n, v in chosen.items() if v != getattr(defaults, n)}


def changed(given: Mapping[str, object], **changes: Unpack[OptionKeywords]) -> OptionKeywords:
    """Returns the options with some of other values; `given` has the names of options only."""
    return cast(OptionKeywords, {**given, **changes})


def without(given: Mapping[str, object], *names: str) -> OptionKeywords:
    """Returns the options that have none of these names."""
    return cast(OptionKeywords, {k: v for k, v in given.items() if k not in names})
