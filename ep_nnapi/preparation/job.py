"""Preparation settings: optimization level, format, style, and a table of valid combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.options.settings import Chosen, read_settings
from ep_nnapi.options.table import Options, parse, to_strings
from ep_nnapi.options.values import ValueParser, names, one_of

_T = TypeVar("_T")

FLATBUFFER = ".tflite"
"""Suffix of LiteRT flatbuffers."""

TIMEOUT = 3600.0
"""Default time limit for one model in seconds; a longer run is unlikely to finish."""


class Level(StrEnum):
    """ONNX Runtime's optimization levels, and one that leaves nodes for NNAPI unfused."""

    DISABLE = "disable"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"
    NNAPI_AWARE = "nnapi-aware"


class Format(StrEnum):
    """Output format: ORT-format, ONNX, ONNX with EPContext nodes, or a LiteRT flatbuffer."""

    ORT = "ort"
    ONNX = "onnx"
    CONTEXT = "context"
    TFLITE = "tflite"


class Platform(StrEnum):
    """CPU architecture for which the nodes that stay on the CPU are optimized."""

    ARM = "arm"
    AMD64 = "amd64"


class Style(StrEnum):
    """Optimizations of an .ort file: applied (fixed), or recorded for replay at load (runtime)."""

    FIXED = "fixed"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True)
class Job:
    """Settings for optimizing and saving; `options` are the provider's, with the NNAPI target."""

    level: Level = Level.NNAPI_AWARE
    format: Format = Format.ORT
    platform: Platform = Platform.ARM
    style: Style = Style.FIXED
    type_reduction: bool = False
    embed: bool = False
    partial: bool = False
    alternatives: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def suffix(self) -> str:
        """The file name suffix of a prepared model."""
        recorded = ".with_runtime_opt" if self.style is Style.RUNTIME else ""
        return {
            Format.ORT: f"{recorded}.ort",
            Format.ONNX: ".onnx",
            Format.CONTEXT: "_ctx.onnx",
            Format.TFLITE: FLATBUFFER,
        }[self.format]

    def to_json(self) -> dict[str, object]:
        """Returns plain data, from which `job_of` restores the job."""
        return {
            "optimization_level": str(self.level),
            "format": str(self.format),
            "target_platform": str(self.platform),
            "optimization_style": str(self.style),
            "enable_type_reduction": self.type_reduction,
            "embed": self.embed,
            "partial": self.partial,
            "alternatives": ",".join(self.alternatives),
            **to_strings(self.options),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """Inputs and tolerance for comparing a prepared model with the original.

    inputs     files as for `read_feeds`; empty: random numbers with a fixed seed
    tolerance  relative to an output's spread; None: the default of the output's kind
    """

    inputs: tuple[str, ...] = ()
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Combination:
    """A row of the table of valid combinations; each is valid for every target platform."""

    format: Format
    levels: tuple[Level, ...]
    style: Style
    extra: str
    result: str


NO_VERIFY_ADVICE = "--no-verify prepares it without comparing"
"""Advice in errors for models that cannot be compared or are not deterministic."""

_ANY = tuple(Level)
_UNFUSED = (Level.DISABLE, Level.BASIC, Level.NNAPI_AWARE)
"""Levels that leave NNAPI's nodes unfused."""
COMBINATIONS = (
    Combination(
        Format.ORT,
        _ANY,
        Style.FIXED,
        "enable_type_reduction",
        "`MODEL.ort`, which plain onnxruntime loads too, and `required_operators.config`",
    ),
    Combination(
        Format.ORT,
        (Level.EXTENDED, Level.ALL, Level.NNAPI_AWARE),
        Style.RUNTIME,
        "enable_type_reduction",
        "`MODEL.with_runtime_opt.ort`: basic, with what the level adds recorded and replayed at "
        "load when the session asks for it (`session.enable_saved_runtime_optimizations`)",
    ),
    Combination(
        Format.ONNX, _ANY, Style.FIXED, "", "`MODEL.onnx`, which plain onnxruntime loads too"
    ),
    Combination(
        Format.CONTEXT,
        _UNFUSED,
        Style.FIXED,
        "embed",
        "`MODEL_ctx.onnx` with each cluster compiled, its weights in a file beside it or embedded",
    ),
    Combination(
        Format.TFLITE,
        _UNFUSED,
        Style.FIXED,
        "",
        "`MODEL.tflite`, or `MODEL_nnapi_N.tflite` for each cluster of a model that LiteRT takes "
        "in part (extra `litert`)",
    ),
)
"""All valid combinations; each is valid for the target platforms arm and amd64."""


_SWITCHES = ("enable_type_reduction", "embed", "partial")


def job_of(given: Mapping[str, object]) -> Job:
    """Returns the job for the keys and values of `Job.to_json`; missing ones get their defaults.

    With `settings`, a file that `ep-nnapi tune` wrote, the default level is the file's. Raises
    OptionError for unknown keys or values and for invalid combinations.
    """
    rest = dict(given)
    default = str(Level.NNAPI_AWARE)
    if rest.get("settings"):
        settings = read_settings(rest["settings"])
        default = settings.level
        if settings.provider is Chosen.CPU:  # which has no options for NNAPI
            del rest["settings"]

    def taken(name: str, parser: ValueParser[_T], otherwise: object) -> _T:
        return parser(name, rest.pop(name, otherwise))

    level = taken("optimization_level", one_of(Level), default)
    form = taken("format", one_of(Format), "ort")
    platform = taken("target_platform", one_of(Platform), "arm")
    style = taken("optimization_style", one_of(Style), "fixed")
    reduced, embed, partial = (taken(name, _boolean, False) for name in _SWITCHES)
    alternatives = taken("alternatives", names, ())
    options = parse(rest)
    if options.receipt is not None:
        raise OptionError("what is prepared runs elsewhere: give receipt to the session there")
    options = replace(options, partitioning=options.partitioning.whole)
    job = Job(level, form, platform, style, reduced, embed, partial, alternatives, options)
    _check(job)
    return job


def level_with_nnapi(level: str | None) -> str:
    """Returns the level for `--use_nnapi --optimization_level LEVEL` of ONNX Runtime's old tool.

    Raises OptionError for level all.
    """
    if level == Level.ALL:
        raise OptionError(
            "use_nnapi with optimization_level all would lay nodes out for one CPU; "
            "take extended, which is nnapi-aware here"
        )
    return Level.NNAPI_AWARE if level in (None, Level.EXTENDED) else str(level)


def _check(job: Job) -> None:
    """Raises OptionError unless one of the combinations allows the job."""
    rows = [c for c in COMBINATIONS if c.format is job.format]
    styled = [c for c in rows if c.style is job.style]
    if not styled:
        raise OptionError(
            f"optimization_style {job.style} is for format ort only, not {job.format}: "
            "only ORT-format files hold recorded optimizations"
        )
    if not any(job.level in c.levels for c in styled):
        known = ", ".join(styled[0].levels)
        raise OptionError(
            f"format {job.format} with style {job.style} goes with optimization_level {known}, "
            f"not {job.level}{_WHY_NOT[job.format]}"
        )
    for name, value in (("enable_type_reduction", job.type_reduction), ("embed", job.embed)):
        if value and not any(c.extra == name for c in styled):
            owner = next(c.format for c in COMBINATIONS if c.extra == name)
            raise OptionError(f"{name} is for format {owner} only, not {job.format}")
    for name, given in (("partial", job.partial), ("alternatives", job.alternatives)):
        if given and job.format is not Format.CONTEXT:
            raise OptionError(f"{name} is for format context only, not {job.format}")


_FUSED = ", which fuses nodes for the CPU before NNAPI sees them; nnapi-aware fuses the others"
_WHY_NOT = {
    Format.ORT: ", which has nothing to record",
    Format.ONNX: "",
    Format.CONTEXT: _FUSED,
    Format.TFLITE: _FUSED,
}


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}; it must be true or false")
    return value
