"""One model prepared in this process: optimized, saved, and what the provider says of it."""

from __future__ import annotations

import logging
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, TensorProto

from ep_nnapi.checking import planned_at
from ep_nnapi.contextmodel import save_context
from ep_nnapi.fixing import fixed
from ep_nnapi.job import Format, Job, Style
from ep_nnapi.rejection import ModelError
from ep_nnapi.report import Report
from ep_nnapi.staging import check_replay, save_onnx, save_ort, save_replayed


@dataclass(frozen=True, slots=True)
class Staged:
    """What a model became.

    report     on the nodes that the provider was asked about
    operators  what a build of ONNX Runtime needs for it: lines of its own tool
    """

    report: Report
    operators: tuple[str, ...]


def stage(model: Path, out: Path, job: Job) -> Staged:
    """Writes `model` as `out`, and the weights of a context beside it.

    Raises ModelError, and OptionError where the option `fix` does not fit the model.
    """
    with fixed(model, out, job) as (settled, rest):
        return _staged(settled, out, rest)


def _staged(model: Path, out: Path, job: Job) -> Staged:
    if job.format is Format.CONTEXT:
        return Staged(_context(model, out, job), ())
    save = save_ort if job.format is Format.ORT else save_onnx
    report = save(model, out, job)
    if job.style is Style.RUNTIME:
        check_replay(out)
    if report is None:
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        report = planned_at(str(out), job.options, level).report
    return Staged(report, _operators(model, out, job))


def beside(model: Path) -> list[Path]:
    """The files that hold the weights of a readable model that has them elsewhere."""
    if model.suffix.lower() == ".ort" or not _mentions(model, b"location"):
        return []
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except DecodeError:
        return []
    names = {
        entry.value
        for tensor in _tensors(proto.graph)
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [model.parent / name for name in sorted(names)]


def _mentions(model: Path, text: bytes) -> bool:
    """Whether the bytes are anywhere in the file: the names of its parts are plain text."""
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(text) >= 0


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (t for t in (attribute.t, *attribute.tensors) if t.external_data)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def _context(model: Path, out: Path, job: Job) -> Report:
    """The clusters are those of the model as it stands after the CPU provider's optimizations."""
    with _temporary(out, ".staged.onnx") as staged:
        save_onnx(model, staged, job)
        return save_context(staged, out, job.options, embed=job.embed)


def _operators(model: Path, out: Path, job: Job) -> tuple[str, ...]:
    if job.format is not Format.ORT:
        return ()
    if job.style is Style.FIXED:
        return _required([out], job.type_reduction)
    with _temporary(out, ".replayed.ort") as replayed:
        save_replayed(model, replayed, job)
        return _required([out, replayed], job.type_reduction)


def _required(models: list[Path], types: bool) -> tuple[str, ...]:
    """The operators of ORT-format models, as ONNX Runtime's own tool lists them."""
    from onnxruntime.tools.ort_format_model import create_config_from_models

    logging.getLogger("ort_format_model.utils").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="ep-nnapi-") as folder:
        config = Path(folder, "config")
        try:
            create_config_from_models(models, config, types)
        except (RuntimeError, ValueError, KeyError) as error:
            raise ModelError(f"its operators cannot be listed: {error}") from None
        lines = config.read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@contextmanager
def _temporary(out: Path, suffix: str) -> Iterator[Path]:
    """A file that is gone afterwards."""
    path = out.with_suffix(suffix)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
