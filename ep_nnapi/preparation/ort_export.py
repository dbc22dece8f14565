"""Optimizing models with ONNX Runtime and saving them, optionally with NNAPI's nodes unfused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, Unpack

import onnxruntime

from ep_nnapi.diagnostics.check import (
    check,
    open_session,
    provider_of_session,
    quiet_options,
    source,
)
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import ModelSource
from ep_nnapi.diagnostics.report_sources import with_sources
from ep_nnapi.graph.onnx_io import temporary
from ep_nnapi.graph.ort_io import operators
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.options.table import OptionKeywords, parse
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.preparation.fusion_guard import add_consumers, is_unfused, remove_consumers
from ep_nnapi.preparation.job import Format, Job, Level, Platform, Style, job_of
from ep_nnapi.preparation.ort_names import rename_generated, restore_subgraphs
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.custom_ops import custom_ops

_CPU = "CPUExecutionProvider"
_INITIALIZERS = "session.optimized_model_external_initializers"
_WEIGHTS_SUFFIX = ".data"
_NCHWC = ["NchwcTransformer"]  # blocked layout for x86
_Level: TypeAlias = onnxruntime.GraphOptimizationLevel
_LEVELS = {
    Level.DISABLE: _Level.ORT_DISABLE_ALL,
    Level.BASIC: _Level.ORT_ENABLE_BASIC,
    Level.EXTENDED: _Level.ORT_ENABLE_EXTENDED,
    Level.ALL: _Level.ORT_ENABLE_ALL,
    Level.NNAPI_AWARE: _Level.ORT_ENABLE_EXTENDED,
}


def save_ort(model: ModelSource, out: Path, job: Job) -> Report | None:
    """Saves `model` in ORT format; returns the provider's report at level nnapi-aware, else None.

    ONNX Runtime assigns nodes but compiles none when it saves a model. Nodes assigned to NNAPI
    stay unchanged, and the level's optimizations apply to the rest. Raises ModelError.
    """
    if job.level is not Level.NNAPI_AWARE:
        open_session(
            source(model), _ort_saving_options(out, job), [_CPU], _disabled_optimizers(job)
        )
        return None
    register()
    try:
        report = _assigned(source(model), out, job)
    except ModelError as whole:
        # The CPU provider needs a kernel for every saved node. It has none for a function that
        # NNAPI claims as a single node, so inline the functions and try again.
        with _basic(model, out, job) as inlined:
            try:
                report = _assigned(str(inlined), out, job)
            except ModelError:
                raise whole from None
    if not is_unfused(out, report):
        _save_protected(model, out, job, report)
    return report


def _save_protected(model: ModelSource, out: Path, job: Job, report: Report) -> None:
    """Saves `model` with NNAPI's nodes protected from ONNX Runtime's fusions."""
    with _basic(model, out, job) as basic, _temporary_onnx(out, ".protected.onnx") as protected:
        add_consumers(basic, report)
        _assigned(str(basic), out, job)
        _to_onnx(out, protected, job, external_weights=True)
        remove_consumers(protected)
        save_ort(protected, out, Job(Level.DISABLE, Format.ORT, job.platform))


@contextmanager
def _basic(model: ModelSource, out: Path, job: Job) -> Iterator[Path]:
    """Yields `model` as an .onnx file after basic optimization, with all functions inlined."""
    with _temporary_onnx(out, ".basic.onnx") as basic:
        how = Job(Level.BASIC, Format.ONNX, job.platform)
        saving = _saving_options(basic, Format.ONNX, how, external_weights=True)
        open_session(source(model), saving, [_CPU], _disabled_optimizers(job))
        rename_generated(basic)
        yield basic


@contextmanager
def _temporary_onnx(out: Path, suffix: str) -> Iterator[Path]:
    """Yields a path for a temporary .onnx file; deletes it and its external data afterwards."""
    with temporary(out, suffix) as path, temporary(out, f"{suffix}{_WEIGHTS_SUFFIX}"):
        yield path


def _assigned(model: str | bytes, out: Path, job: Job) -> Report:
    """Saves `model` as an .ort file in which the nodes that the provider claims are unchanged."""
    report = _claimed(model, _ort_saving_options(out, job), job)
    if job.format is Format.ORT and report.taken and "QLinearConv" in operators(out):
        # At level all, full builds change the layout of QLinearConv when they load the file. If
        # clusters were compiled before, this looks up nodes that no longer exist. Applying the
        # layout now avoids it.
        saving = _ort_saving_options(out, job)
        saving.graph_optimization_level = _Level.ORT_ENABLE_ALL
        report = _claimed(model, saving, job)
    return report


def _claimed(model: str | bytes, saving: onnxruntime.SessionOptions, job: Job) -> Report:
    with provider_of_session(job.options, fast=False) as (strings, found):
        open_session(model, saving, [(EP_NAME, strings), _CPU], _NCHWC)
        return found().report


def save_onnx(model: ModelSource, out: Path, job: Job) -> Report | None:
    """Saves `model` as an .onnx file; otherwise like `save_ort`.

    ONNX Runtime refuses to write .onnx from a session with compiled nodes, but not from an .ort
    file with assigned nodes. Level nnapi-aware therefore converts via .ort if NNAPI takes any node.
    """
    if job.level is not Level.NNAPI_AWARE:
        open_session(
            source(model), _saving_options(out, Format.ONNX, job), [_CPU], _disabled_optimizers(job)
        )
        return None
    with temporary(out, ".assigned.ort") as assigned:
        report = save_ort(model, assigned, job)
        if report is not None and report.taken:
            _to_onnx(assigned, out, job)
        else:
            save_onnx(model, out, replace(job, level=Level.EXTENDED))
    return report


def _to_onnx(saved: Path, out: Path, job: Job, *, external_weights: bool = False) -> None:
    """Converts an .ort file to .onnx without changing its nodes."""
    as_it_is = Job(Level.DISABLE, Format.ONNX, job.platform)
    open_session(
        str(saved),
        _saving_options(out, Format.ONNX, as_it_is, external_weights=external_weights),
        [_CPU],
    )
    rename_generated(out)
    restore_subgraphs(out, saved)


def check_replay(saved: Path) -> None:
    """Raises ModelError unless ONNX Runtime can replay the optimizations recorded in a model.

    It records some optimizations of quantized layers that it cannot replay.
    """
    options = quiet_options()
    options.add_session_config_entry("session.enable_saved_runtime_optimizations", "1")
    try:
        open_session(str(saved), options, [_CPU])
    except ModelError as error:
        raise ModelError(
            f"ONNX Runtime cannot replay what it recorded, so take style fixed; {error}"
        ) from None


def save_replayed(model: ModelSource, out: Path, job: Job) -> None:
    """Saves a model of style runtime as it is after all recorded optimizations are replayed.

    A session replays some or all of them at load, so a reduced build needs the operators of both
    the recorded model and this one.
    """
    options = _saving_options(out, Format.ORT, job)
    options.add_session_config_entry("optimization.minimal_build_optimizations", "apply")
    open_session(source(model), options, [_CPU], _disabled_optimizers(job))


def check_at(model: ModelSource, level: str, **options: Unpack[OptionKeywords]) -> Report:
    """Returns the provider's report on `model` after saving it at optimization `level`.

    Shows which nodes NNAPI loses at a level. Raises as `check`.
    """
    model = source(model)
    if not isinstance(model, bytes) and contents(model):
        raise ModelError(f"{model}: it is compiled already, with no level to choose")
    with (
        custom_ops(parse(options).custom_ops_library),
        fixed_model(model, options) as (static, rest),
        tempfile.TemporaryDirectory(prefix="ep-nnapi-") as folder,
    ):
        saved = Path(folder, "saved.ort")
        save_ort(static, saved, job_of({"optimization_level": level, **rest}))
        report = with_sources(check(saved, **rest), model)
        return replace(report, digest=digest_of(model))


def _ort_saving_options(out: Path, job: Job) -> onnxruntime.SessionOptions:
    options = _saving_options(out, Format.ORT, job)
    if job.style is Style.RUNTIME:
        options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
    return options


def _disabled_optimizers(job: Job) -> Sequence[str]:
    """Returns the names of optimizers to disable for the target platform."""
    return [] if job.platform is Platform.AMD64 else _NCHWC


def _saving_options(
    out: Path, form: Format, job: Job, *, external_weights: bool = False
) -> onnxruntime.SessionOptions:
    """Returns session options that save the model.

    apart   store weights of an .onnx file as external data, so that edits need not copy them
    """
    options = quiet_options()
    options.graph_optimization_level = _LEVELS[job.level]
    options.optimized_model_filepath = str(out)
    options.intra_op_num_threads = 1  # nothing runs, so neither threads nor an arena are needed
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.save_model_format", form.upper())
    options.add_session_config_entry("session.disable_prepacking", "1")
    if external_weights:
        options.add_session_config_entry(
            f"{_INITIALIZERS}_file_name", f"{out.name}{_WEIGHTS_SUFFIX}"
        )
        options.add_session_config_entry(f"{_INITIALIZERS}_min_size_in_bytes", "1024")
    if job.platform is Platform.ARM:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    return options
