"""A model as it is prepared: inputs of the sizes that `fix` gives them, no constants among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorShapeProto, ValueInfoProto, Version

from ep_nnapi.errors import ModelError
from ep_nnapi.graph.onnx_io import EXTERNAL_ABOVE, graphs
from ep_nnapi.graph.value import Dim
from ep_nnapi.preparation.job import Format, Job, Level
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols

_OVERRIDABLE_FROM = Version.IR_VERSION_2019_1_22
"""The IR version from which on an initializer among the inputs can be overridden: 4."""
_IR_VERSION_FIRST = b"\x08"
"""The byte with which a model begins whose first field is its IR version: those of all writers."""


@contextmanager
def fixed(model: Path, out: Path, job: Job) -> Iterator[tuple[Path, Job]]:
    """The model and the job with the sizes of `job.options.fix` written in, beside `out`.

    Initializers that IR version 3 lists among the inputs are constants to ONNX Runtime; what it
    saves may have lost one and still ask for it. They are inputs no longer.
    As they are where nothing is to be done. Raises OptionError for names and sizes that the model
    does not have, ModelError for a model that cannot be read.
    """
    if not job.options.fix and not _lists_constants(model):
        yield model, job
        return
    settled, weights = out.with_suffix(".fixed.onnx"), out.with_suffix(".fixed.weights")
    try:
        _write(model, settled, dict(job.options.fix), weights)
        yield settled, replace(job, options=replace(job.options, fix=()))
    finally:
        settled.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


def write_sizes(proto: ModelProto, shapes: Shapes) -> None:
    """Sets the inputs' sizes, and their symbols wherever else they stand."""
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
        _unlist(proto)
    write_sizes(proto, shapes)
    large = proto.ByteSize() > EXTERNAL_ABOVE
    onnx.save_model(proto, str(to), save_as_external_data=large, location=weights.name)


def _lists_constants(model: Path) -> bool:
    """Whether it is an .onnx file of an IR version in which inputs may be constants."""
    if model.suffix.lower() == ".ort":
        return False
    with model.open("rb") as file:
        if file.read(1) == _IR_VERSION_FIRST:
            return file.read(1)[0:1] < bytes([_OVERRIDABLE_FROM])
    try:
        proto = onnx.load(str(model), load_external_data=False)
    except (DecodeError, ValueError):  # as ONNX Runtime will say
        return False
    return bool(proto.ir_version < _OVERRIDABLE_FROM)


def _unlist(proto: ModelProto) -> None:
    """Takes initializers out of the inputs; they stay constants in the next IR version, too."""
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
