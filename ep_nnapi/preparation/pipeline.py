"""Preparation of one model in this process: optimize it, save it and report on its nodes."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import onnxruntime
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, TensorProto

from ep_nnapi.diagnostics.check import check_excluded, partitioned_at
from ep_nnapi.diagnostics.fixed_model import OVERRIDABLE_FROM, written
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.graph.onnx_io import mentions, read_model, temporary
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.preparation.job import Format, Job, Level, Style
from ep_nnapi.preparation.ort_export import (
    check_replay,
    save_onnx,
    save_ort,
    save_replayed,
    temporary_onnx,
)
from ep_nnapi.preparation.tflite import save_tflite
from ep_nnapi.preparation.write_epcontext import CompiledPart, save_context
from ep_nnapi.report.report import Report


@dataclass(frozen=True, slots=True)
class ExternalData:
    """A model's external data: the files, and the number of bytes its tensors occupy in them."""

    files: tuple[Path, ...] = ()
    bytes: int = 0


def external_data_of(model: Path) -> ExternalData:
    """Returns the external data of a model; empty for .ort files and unreadable models."""
    if model.suffix.lower() == ".ort" or not mentions(model, b"location"):
        return ExternalData()
    proto = read_model(model, weights=False)
    if proto is None:
        return ExternalData()
    places = [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor in _tensors(proto.graph)
        if tensor.data_location == TensorProto.EXTERNAL
    ]
    names = sorted({place["location"] for place in places if "location" in place})
    size = sum(_length(place, model.parent) for place in places)
    return ExternalData(tuple(model.parent / name for name in names), size)


def _length(place: Mapping[str, str], folder: Path) -> int:
    """Returns a tensor's size in bytes: its `length`, or else the rest of the file."""
    file = folder / place.get("location", "")
    if not file.is_file():
        return 0
    try:
        end = file.stat().st_size - int(place.get("offset", 0))
        return max(0, min(end, int(place.get("length", end))))
    except ValueError:  # malformed; ONNX Runtime reports it on load
        return 0


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (t for t in (attribute.t, *attribute.tensors) if t.external_data)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


_IR_VERSION_FIRST = b"\x08"
"""Tag byte of the `ir_version` field, which all common writers put first in the file."""


def _has_constant_inputs(model: Path) -> bool:
    """Returns True for an .onnx file with an IR version whose inputs may be constants (below 4)."""
    if model.suffix.lower() == ".ort":
        return False
    with model.open("rb") as file:
        if file.read(1) == _IR_VERSION_FIRST:
            return file.read(1)[0:1] < bytes([OVERRIDABLE_FROM])
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except (DecodeError, ValueError):  # ONNX Runtime reports it on load
        return False
    return bool(proto.ir_version < OVERRIDABLE_FROM)


_MAX_MODEL_BYTES = (1 << 31) - 1  # bytes: Protocol Buffers and FlatBuffers have signed 32-bit sizes


@dataclass(frozen=True, slots=True)
class SavedModel:
    """Result of preparing a model.

    report     the provider's report on the nodes offered to it
    level      of ONNX Runtime's optimizations: the job's, or what `save_onnx` takes in its place
    compiled   how much of the model is compiled ahead of time, for format context
    operators  operators that a reduced ONNX Runtime build needs: lines of its own config tool
    beside     external data files of the source model
    """

    report: Report
    level: Level
    operators: tuple[str, ...] = ()
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
    rest, fix = replace(job, options=replace(job.options, fix=())), job.options.fix
    rewritten = fix or _has_constant_inputs(model)
    with written(str(model), fix, out.parent) if rewritten else nullcontext(model) as static:
        saved = _saved(Path(static), out, rest, scratch or out.parent)
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
        saved = _compiled(model, out, job, scratch)
        _check_names(saved.report, job)
        return saved
    if job.format is Format.ORT:
        report, level = save_ort(model, out, job), job.level
    else:
        report, level = save_onnx(model, out, job)
    if job.style is Style.RUNTIME:
        check_replay(out)
    if report is not None:
        _check_names(report, job)
    if report is None or job.format is Format.ONNX:  # which sessions optimize once more
        basic = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        report = partitioned_at(str(out), job.options, basic).report
    return SavedModel(report, level, _operators(model, out, job))


def _check_names(report: Report, job: Job) -> None:
    """Raises OptionError for unknown names in options such as `exclude`, at level nnapi-aware only.

    Other levels may rename or fuse nodes before the provider sees them.
    """
    if job.level is Level.NNAPI_AWARE:
        check_excluded(job.options, report)


def _compiled(model: Path, out: Path, job: Job, scratch: Path) -> SavedModel:
    """Optimizes the model, then saves it with its clusters compiled, or the clusters alone.

    Nodes that the optimization inserted, as casts of constants or equal splits, are optimized too.
    Otherwise ONNX Runtime would fold or merge them when it loads the model, and the inputs of a
    compiled cluster would change.
    """
    with (
        temporary_onnx(out, ".optimized.onnx") as once,
        temporary_onnx(out, ".optimized_again.onnx") as twice,
    ):
        _, level = save_onnx(model, once, job, external_weights=True)
        saved = once
        if job.level is not Level.DISABLE:
            basic = Job(Level.BASIC, Format.ONNX, job.platform)
            save_onnx(once, twice, basic, external_weights=True)
            saved = twice
        if job.format is Format.TFLITE:
            return SavedModel(save_tflite(saved, out, job.options, scratch), level)
        report, part = save_context(saved, out, job)
        return SavedModel(report, level, compiled=part)


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
