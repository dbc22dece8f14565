"""Model rewriting before preparation: static input shapes from `fix`, no constant inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ep_nnapi.diagnostics.fixed_model import OVERRIDABLE_FROM, errors_about, write_fixed
from ep_nnapi.preparation.job import Job

_IR_VERSION_FIRST = b"\x08"
"""Tag byte of the `ir_version` field, which all common writers put first in the file."""


@contextmanager
def with_static_shapes(model: Path, out: Path, job: Job) -> Iterator[tuple[Path, Job]]:
    """Yields a temporary model with the shapes of `job.options.fix`, and a job without `fix`.

    The model is written next to `out`. Initializers that IR version 3 lists as inputs are removed
    from the inputs: ONNX Runtime treats them as constants, but may save a model that lacks the
    initializer and still requires the input. Yields the arguments if there is nothing to change.
    Raises OptionError for names and sizes that the model does not have, ModelError for a model
    that cannot be read.
    """
    if not job.options.fix and not _has_constant_inputs(model):
        yield model, job
        return
    static, weights = out.with_suffix(".fixed.onnx"), out.with_suffix(".fixed.weights")
    try:
        write_fixed(model, static, dict(job.options.fix), weights)
        with errors_about(model, static):
            yield static, replace(job, options=replace(job.options, fix=()))
    finally:
        static.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


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
