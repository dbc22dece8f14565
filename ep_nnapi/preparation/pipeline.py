"""One model prepared in this process: optimized, saved, and what the provider says of it."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import onnxruntime

from ep_nnapi.diagnostics.check import planned_at
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.unknown_names import check_excluded
from ep_nnapi.errors import ModelError
from ep_nnapi.graph.onnx_io import mentions, temporary
from ep_nnapi.preparation.external_data import Elsewhere, elsewhere
from ep_nnapi.preparation.fix_shapes import fixed
from ep_nnapi.preparation.job import Format, Job, Level, Style
from ep_nnapi.preparation.ort_export import check_replay, save_onnx, save_ort, save_replayed
from ep_nnapi.preparation.write_epcontext import save_context
from ep_nnapi.report import Report

_MOST = (1 << 31) - 1  # bytes: sizes in Protocol Buffers and FlatBuffers are signed 32-bit numbers
_CAST = b"InsertedPrecisionFreeCast_"  # how the names of casts begin that ONNX Runtime adds


@dataclass(frozen=True, slots=True)
class Staged:
    """What a model became.

    report     on the nodes that the provider was asked about
    operators  what a build of ONNX Runtime needs for it: lines of its own tool
    beside     the files beside the model that it was read from, too
    """

    report: Report
    operators: tuple[str, ...]
    beside: tuple[Path, ...] = ()


def stage(model: Path, out: Path, job: Job) -> Staged:
    """Writes `model` as `out`, and the weights of a context beside it.

    Raises ModelError, and OptionError where an option names what the model does not have.
    """
    if contents(model):
        raise ModelError(f"{model}: it is compiled already; prepare the original")
    held = elsewhere(model)
    _check_size(model, held)
    with fixed(model, out, job) as (settled, rest):
        return replace(_staged(settled, out, rest), beside=held.files)


def _check_size(model: Path, held: Elsewhere) -> None:
    """Raises ModelError for what ONNX Runtime would only after minutes fail to write."""
    size = model.stat().st_size + held.bytes
    if size > _MOST:
        raise ModelError(
            f"it has {size / 1e9:.3g} GB with its weights, and ONNX Runtime saves at most "
            f"{_MOST / 1e9:.3g} GB in one file; divide it into models below that"
        )


def _staged(model: Path, out: Path, job: Job) -> Staged:
    if job.format is Format.CONTEXT:
        compiled = _context(model, out, job)
        _check_names(compiled, job)
        return Staged(compiled, ())
    save = save_ort if job.format is Format.ORT else save_onnx
    report = save(model, out, job)
    if job.style is Style.RUNTIME:
        check_replay(out)
    if report is None:
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        report = planned_at(str(out), job.options, level).report
    _check_names(report, job)
    return Staged(report, _operators(model, out, job))


def _check_names(report: Report, job: Job) -> None:
    """Where the names of nodes are still those of the model, `exclude` must be some of them."""
    if job.level is Level.NNAPI_AWARE:
        check_excluded(job.options, report)


def _context(model: Path, out: Path, job: Job) -> Report:
    """The clusters are those of the model as it stands after the CPU provider's optimizations.

    Constants that ONNX Runtime casts for the CPU as it saves are cast once and for all: it would do
    so when it loads the model, and a compiled cluster that read them would have other inputs.
    """
    with temporary(out, ".staged.onnx") as staged:
        save_onnx(model, staged, job)
        if job.level is not Level.DISABLE and mentions(staged, _CAST):
            save_onnx(staged, out, Job(Level.BASIC, Format.ONNX, job.platform))
            out.replace(staged)
        return save_context(staged, out, job.options, embed=job.embed)


def _operators(model: Path, out: Path, job: Job) -> tuple[str, ...]:
    if job.format is not Format.ORT:
        return ()
    if job.style is Style.FIXED:
        return _required([out], job.type_reduction)
    with temporary(out, ".replayed.ort") as replayed:
        save_replayed(model, replayed, job)
        return _required([out, replayed], job.type_reduction)


def _required(models: list[Path], types: bool) -> tuple[str, ...]:
    """The operators of ORT-format models, as ONNX Runtime's own tool lists them.

    The tool writes the models' names into comments, so it sees them under plain names.
    """
    from onnxruntime.tools.ort_format_model import create_config_from_models

    logging.getLogger("ort_format_model.utils").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="ep-nnapi-") as folder:
        config = Path(folder, "config")
        plain = [Path(folder, f"{i}.ort") for i in range(len(models))]
        for link, model in zip(plain, models, strict=True):
            link.symlink_to(model.absolute())
        try:
            create_config_from_models(plain, config, types)
        except (RuntimeError, ValueError, KeyError) as error:
            raise ModelError(f"its operators cannot be listed: {error}") from None
        lines = config.read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))
