"""Preparation of one model in this process: optimize it, save it and report on its nodes."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import onnxruntime

from ep_nnapi.diagnostics.check import partitioned_at
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.unknown_names import check_excluded
from ep_nnapi.graph.onnx_io import temporary
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.preparation.external_data import ExternalData, external_data_of
from ep_nnapi.preparation.fix_shapes import with_static_shapes
from ep_nnapi.preparation.job import Format, Job, Level, Style
from ep_nnapi.preparation.ort_export import check_replay, save_onnx, save_ort, save_replayed
from ep_nnapi.preparation.write_epcontext import CompiledPart, save_context
from ep_nnapi.preparation.write_tflite import save_tflite
from ep_nnapi.report.report import Report

_MAX_MODEL_BYTES = (1 << 31) - 1  # bytes: Protocol Buffers and FlatBuffers have signed 32-bit sizes


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Result of preparing a model.

    report     the provider's report on the nodes offered to it
    compiled   how much of the model is compiled ahead of time, for format context
    operators  operators that a reduced ONNX Runtime build needs: lines of its own config tool
    beside     external data files of the source model
    """

    report: Report
    operators: tuple[str, ...]
    external_files: tuple[Path, ...] = ()
    compiled: CompiledPart | None = None


def save_prepared(model: Path, out: Path, job: Job, scratch: Path | None = None) -> SavedModel:
    """Prepares `model` and writes it to `out`; external weights of EPContext nodes go next to it.

    scratch   folder for what only the verification needs (default: that of `out`)

    Raises ModelError, and OptionError if an option names something that the model does not have.
    """
    if contents(model):
        raise ModelError(f"{model}: it is compiled already; prepare the original")
    external = external_data_of(model)
    _check_size(model, external)
    with with_static_shapes(model, out, job) as (static, rest):
        saved = _saved(static, out, rest, scratch or out.parent)
        return replace(saved, external_files=external.files)


def _check_size(model: Path, external: ExternalData) -> None:
    """Raises ModelError for models too large to save, which ONNX Runtime detects late."""
    size = model.stat().st_size + external.bytes
    if size > _MAX_MODEL_BYTES:
        raise ModelError(
            f"it has {size / 1e9:.3g} GB with its weights, and ONNX Runtime saves at most "
            f"{_MAX_MODEL_BYTES / 1e9:.3g} GB in one file; divide it into models below that"
        )


def _saved(model: Path, out: Path, job: Job, scratch: Path) -> SavedModel:
    if job.format in (Format.CONTEXT, Format.TFLITE):
        found, part = _compiled(model, out, job, scratch)
        _check_names(found, job)
        return SavedModel(found, (), compiled=part)
    save = save_ort if job.format is Format.ORT else save_onnx
    report = save(model, out, job)
    if job.style is Style.RUNTIME:
        check_replay(out)
    if report is None:
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        report = partitioned_at(str(out), job.options, level).report
    _check_names(report, job)
    return SavedModel(report, _operators(model, out, job))


def _check_names(report: Report, job: Job) -> None:
    """Raises OptionError for unknown names in options such as `exclude`, at level nnapi-aware only.

    Other levels may rename or fuse nodes before the provider sees them.
    """
    if job.level is Level.NNAPI_AWARE:
        check_excluded(job.options, report)


def _compiled(
    model: Path, out: Path, job: Job, scratch: Path
) -> tuple[Report, CompiledPart | None]:
    """Optimizes the model, then saves it with its clusters compiled, or the clusters alone.

    Nodes that the optimization inserted, as casts of constants or equal splits, are optimized too.
    Otherwise ONNX Runtime would fold or merge them when it loads the model, and the inputs of a
    compiled cluster would change.
    """
    with temporary(out, ".optimized.onnx") as saved:
        save_onnx(model, saved, job)
        if job.level is not Level.DISABLE:
            save_onnx(saved, out, Job(Level.BASIC, Format.ONNX, job.platform))
            out.replace(saved)
        if job.format is Format.TFLITE:
            return save_tflite(saved, out, job.options, scratch), None
        return save_context(saved, out, job.options, embed=job.embed, partial=job.partial)


def _operators(model: Path, out: Path, job: Job) -> tuple[str, ...]:
    if job.format is not Format.ORT:
        return ()
    if job.style is Style.FIXED:
        return _required([out], job.type_reduction)
    with temporary(out, ".replayed.ort") as replayed:
        save_replayed(model, replayed, job)
        return _required([out, replayed], job.type_reduction)


def _required(models: list[Path], types: bool) -> tuple[str, ...]:
    """Returns the operators of ORT-format models, as listed by ONNX Runtime's own tool.

    The tool writes file names into comments of its output, so links with safe names replace them.
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
