"""A model optimized by ONNX Runtime at a chosen level and saved, with NNAPI's nodes kept or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import onnxruntime

from ep_nnapi.checking import collecting, open_session, quiet_options
from ep_nnapi.options import Options
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.report import Report

_CPU = "CPUExecutionProvider"
_Level: TypeAlias = onnxruntime.GraphOptimizationLevel


class Level(StrEnum):
    """ONNX Runtime's levels on the CPU provider, and the one that spares NNAPI's nodes."""

    DISABLE = "disable"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"
    NNAPI_AWARE = "nnapi-aware"


class Platform(StrEnum):
    """What the CPU nodes of an .ort file are for."""

    ARM = "arm"
    AMD64 = "amd64"


class Style(StrEnum):
    """Whether an .ort file's optimizations are baked in or recorded, to be replayed at load."""

    FIXED = "fixed"
    RUNTIME = "runtime"


_LEVELS = {
    Level.DISABLE: _Level.ORT_DISABLE_ALL,
    Level.BASIC: _Level.ORT_ENABLE_BASIC,
    Level.EXTENDED: _Level.ORT_ENABLE_EXTENDED,
    Level.ALL: _Level.ORT_ENABLE_ALL,
    Level.NNAPI_AWARE: _Level.ORT_ENABLE_EXTENDED,
}


@dataclass(frozen=True, slots=True)
class Staging:
    """How to optimize and save."""

    level: Level = Level.NNAPI_AWARE
    platform: Platform = Platform.ARM
    style: Style = Style.FIXED
    options: Options = field(default_factory=Options)


def save_ort(model: Path, out: Path, how: Staging) -> Report | None:
    """Saves `model` in ORT format; returns the provider's report where NNAPI's nodes are kept.

    Only assigns: ONNX Runtime compiles nothing for a file, so nodes that NNAPI takes stay as they
    are and the optimizations of the level apply to the rest. Functions are inlined before that, for
    the CPU provider must be able to run every node that stays. Raises ModelError.
    """
    options = _saving(out, "ORT", _LEVELS[how.level])
    if how.style is Style.RUNTIME:
        options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
    if how.platform is Platform.ARM:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    # NCHWc blocks are made for x86: an .ort file for phones must not have them
    left_out = [] if how.platform is Platform.AMD64 else ["NchwcTransformer"]
    if how.level is not Level.NNAPI_AWARE:
        open_session(str(model), options, [_CPU], left_out)
        return None
    register()
    inlined = out.with_suffix(".inlined.onnx")
    try:
        open_session(str(model), _saving(inlined, "ONNX", _Level.ORT_ENABLE_BASIC), [_CPU])
        with collecting(how.options) as (strings, found):
            open_session(str(inlined), options, [(EP_NAME, strings), _CPU], left_out)
            return found().report
    finally:
        inlined.unlink(missing_ok=True)


def save_onnx(model: Path, out: Path, how: Staging) -> Report | None:
    """The same as an .onnx file.

    ONNX Runtime refuses to write .onnx from a session with compiled nodes, but not from an .ort
    file in which they are kept, so nnapi-aware goes that way round.
    """
    if how.level is not Level.NNAPI_AWARE:
        open_session(str(model), _saving(out, "ONNX", _LEVELS[how.level]), [_CPU])
        return None
    assigned = out.with_suffix(".assigned.ort")
    try:
        report = save_ort(model, assigned, how)
        open_session(str(assigned), _saving(out, "ONNX", _Level.ORT_DISABLE_ALL), [_CPU])
    finally:
        assigned.unlink(missing_ok=True)
    return report


def _saving(out: Path, form: str, level: _Level) -> onnxruntime.SessionOptions:
    options = quiet_options()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(out)
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.save_model_format", form)
    options.add_session_config_entry("session.disable_prepacking", "1")
    return options
