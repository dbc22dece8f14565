"""Model rewriting before preparation: static input shapes from `fix`, no constant inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorShapeProto, ValueInfoProto, Version

from ep_nnapi.errors import ModelError
from ep_nnapi.graph.onnx_io import EXTERNAL_DATA_THRESHOLD, graphs
from ep_nnapi.graph.value import Dim
from ep_nnapi.preparation.job import Format, Job, Level
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols

_OVERRIDABLE_FROM = Version.IR_VERSION_2019_1_22
"""IR version 4: from here on, an initializer that is also listed as an input is overridable."""
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
        _write(model, static, dict(job.options.fix), weights)
        yield static, replace(job, options=replace(job.options, fix=()))
    finally:
        static.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


def set_shapes(proto: ModelProto, shapes: Shapes) -> None:
    """Sets the inputs' shapes, and replaces the symbolic dimensions they fix in all graphs."""
    constants = {t.name for t in proto.graph.initializer}
    inputs = [_Input(i.name, _dims(i)) for i in proto.graph.input if i.name not in constants]
    known = fixed_symbols(inputs, shapes)
    for graph in graphs(proto.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            _substitute(info.type.tensor_type.shape, known)
    for info in proto.graph.input:
        sizes = shapes.get(info.name, ())
        for dim, size in zip(info.type.tensor_type.shape.dim, sizes, strict=False):
            dim.dim_value = size


@dataclass(frozen=True, slots=True)
class _Input:
    name: str
    dims: tuple[Dim, ...] | None


def _write(model: Path, to: Path, shapes: Shapes, weights: Path) -> None:
    source = model
    if model.suffix.lower() == ".ort":
        save_onnx(model, to, Job(Level.DISABLE, Format.ONNX))
        source = to
    try:
        proto = onnx.load(str(source))
    except (DecodeError, OSError, ValueError) as error:
        raise ModelError(f"{model}: its sizes cannot be fixed: {error}") from None
    if proto.ir_version < _OVERRIDABLE_FROM:
        _remove_constant_inputs(proto)
    set_shapes(proto, shapes)
    large = proto.ByteSize() > EXTERNAL_DATA_THRESHOLD
    onnx.save_model(proto, str(to), save_as_external_data=large, location=weights.name)


def _has_constant_inputs(model: Path) -> bool:
    """Returns True for an .onnx file with an IR version whose inputs may be constants (below 4)."""
    if model.suffix.lower() == ".ort":
        return False
    with model.open("rb") as file:
        if file.read(1) == _IR_VERSION_FIRST:
            return file.read(1)[0:1] < bytes([_OVERRIDABLE_FROM])
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except (DecodeError, ValueError):  # ONNX Runtime reports it on load
        return False
    return bool(proto.ir_version < _OVERRIDABLE_FROM)


def _remove_constant_inputs(proto: ModelProto) -> None:
    """Removes initializers from the inputs and sets IR version 4, where they stay constants."""
    constants = {t.name for t in proto.graph.initializer}
    inputs = [i for i in proto.graph.input if i.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    proto.ir_version = _OVERRIDABLE_FROM


def _dims(info: ValueInfoProto) -> tuple[Dim, ...] | None:
    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(_dim(d) for d in kind.shape.dim)


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def _substitute(shape: TensorShapeProto, known: Mapping[str, int]) -> None:
    for dim in shape.dim:
        if dim.dim_param in known:
            dim.dim_value = known[dim.dim_param]
