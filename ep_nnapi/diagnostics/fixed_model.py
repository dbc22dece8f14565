"""Models with the option `fix` written in, which every command sees in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import (
    ModelProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    Version,
    helper,
    numpy_helper,
)
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.inputs import InputSpec, frozen_array
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import as_files
from ep_nnapi.errors import valid_names
from ep_nnapi.graph.onnx_io import (
    drop_constant_inputs,
    graphs,
    open_inputs,
    replace_all,
    save,
)
from ep_nnapi.graph.value import Dim
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.options.fixed import Contents, Fix, contents_in, sizes_in
from ep_nnapi.options.table import Options
from ep_nnapi.provider.receipt import standing_for
from ep_nnapi.sessions.cpu import CPU, custom_ops, quiet_options, session_of
from ep_nnapi.sizes.control_flow import decide_control_flow
from ep_nnapi.sizes.symbols import Shapes, fixed_symbols, input_shapes, size_named

OVERRIDABLE_FROM = Version.IR_VERSION_2019_1_22
"""IR version 4: from here on, an initializer that is also listed as an input is overridable."""


@contextmanager
def fixed_model(model: str | bytes, options: Options) -> Iterator[tuple[str | bytes, Options]]:
    """Yields a temporary model with the sizes of `fix` written in, and options without `fix`.

    ONNX Runtime then folds what depends on the sizes, so all commands see the nodes that `prepare`
    saves. Yields the arguments if nothing is fixed; errors name the model itself. The library of
    custom operators is registered in all sessions meanwhile. Raises OptionError for names and sizes
    that the model does not have, ModelError if it cannot be read.
    """
    with custom_ops(options.custom_ops_library):
        if options.fix:
            with written(model, options.fix) as static:
                yield static, replace(options, fix=())
        else:
            yield model, options


@contextmanager
def written(model: str | bytes, fix: Fix, within: Path | None = None) -> Iterator[str]:
    """Yields the path of a temporary model, in a folder of its own, with what `fix` says of inputs.

    within   the folder that has that folder (default: the system's for temporary files)
    Initializers that IR version 3 lists as inputs are removed from the inputs: ONNX Runtime treats
    them as constants, but may save a model that lacks the initializer and still requires the input.
    Raises as `fixed_model`.
    """
    called = "the model" if isinstance(model, bytes) else model
    if contents(model):
        raise ModelError(f"{called}: it is compiled for its sizes already; fix the original's")
    folder = TemporaryDirectory(prefix="ep-nnapi-", dir=within)
    with as_files(model, ()) as (path, _), folder as home:
        static = Path(home, f"{path.stem}.onnx")
        _write_fixed(path, static, fix)
        with _errors_about(model, called, static, fix), standing_for(model, str(static)):
            yield str(static)


@contextmanager
def _errors_about(model: str | bytes, called: str, static: Path, fix: Fix) -> Iterator[None]:
    """Has errors name the model where they name its temporary copy `static`, in which `fix` is."""
    try:
        yield
    except (ModelError, OptionError) as error:
        said = str(error).replace(str(static), called)
        if fix and "ONNX Runtime cannot load it" in said and _loads(model):
            said += (
                ": with the sizes of the option fix, which a node or a branch of it does not take; "
                "fix others, or none and give inputs of these sizes with --input"
            )
        raise type(error)(said.replace(f"{called}: {called}:", f"{called}:")) from error.__cause__


def _loads(model: str | bytes) -> bool:
    """True if ONNX Runtime loads the model as it is: what was written into it is at fault."""
    try:
        session_of(model, quiet_options(GraphOptimizationLevel.ORT_DISABLE_ALL))
    except Exception:  # ONNX Runtime's exceptions have no common base of their own
        return False
    return True


def _write_fixed(model: Path, to: Path, fix: Fix) -> None:
    """Writes the model with what `fix` says of its inputs."""
    source = model
    if model.suffix.lower() == ".ort":
        try:
            save_as_onnx(str(model), to)
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            said = str(error).strip().split("\n", maxsplit=1)[0]
            raise ModelError(f"{model}: its sizes cannot be fixed: {said}") from None
        source = to
    try:
        proto = onnx.load(str(source))
    except Exception as error:  # protobuf's exceptions have no common base class
        raise ModelError(f"{model}: its sizes cannot be fixed: {error}") from None
    if proto.ir_version < OVERRIDABLE_FROM:
        drop_constant_inputs(proto.graph)
        proto.ir_version = OVERRIDABLE_FROM  # from which on they stay constants
    write_in(proto, fix)
    save(proto, to)


def write_in(proto: ModelProto, fix: Fix) -> None:
    """Writes sizes and contents of inputs into the model, and decides its control flow with them.

    Raises OptionError for names, sizes and numbers that the model does not have.
    """
    set_shapes(proto, sizes_in(fix))
    frozen = {tensor.name: tensor for tensor in _frozen(proto, contents_in(fix))}
    set_shapes(proto, {name: tuple(tensor.dims) for name, tensor in frozen.items()})
    replace_all(proto.graph.input, [i for i in proto.graph.input if i.name not in frozen])
    proto.graph.initializer.extend(frozen.values())
    if fix:
        decide_control_flow(proto)


def _frozen(proto: ModelProto, given: Mapping[str, Contents]) -> list[TensorProto]:
    """The constants that take the place of inputs."""
    inputs = {i.name: i for i in open_inputs(proto.graph)}
    for name in given.keys() - inputs.keys():
        raise OptionError(f"fix: {name} is no input; known: {valid_names(name, inputs)}")
    found = []
    for name, held in given.items():
        kind, dims = inputs[name].type.tensor_type.elem_type, _dims(inputs[name])
        if dims is None:  # of any rank
            dims = held.shape or (len(held.numbers),) * (len(held.numbers) > 1)
        spec = InputSpec(name, np.dtype(helper.tensor_dtype_to_np_dtype(kind)), dims)
        found.append(numpy_helper.from_array(frozen_array(spec, held), name))
    return found


def set_shapes(proto: ModelProto, shapes: Shapes) -> None:
    """Sets the inputs' shapes, and replaces the symbolic dimensions they fix in all graphs."""
    inputs = [_Input(i.name, _dims(i)) for i in open_inputs(proto.graph)]
    known = fixed_symbols(inputs, shapes)
    for graph in graphs(proto.graph):
        for info in (*graph.input, *graph.output, *graph.value_info):
            _substitute(info.type.tensor_type.shape, known)
    of_inputs = input_shapes(inputs, shapes)
    for info in proto.graph.input:
        if info.name in of_inputs:
            if not info.type.HasField("tensor_type"):
                raise OptionError(f"fix: {info.name} is no tensor, so that it has no sizes")
            info.type.tensor_type.shape.CopyFrom(_static(shapes[info.name]))


@dataclass(frozen=True, slots=True)
class _Input:
    name: str
    dims: tuple[Dim, ...] | None


def save_as_onnx(model: str | bytes, to: Path) -> None:
    """Converts an .ort file to .onnx without changing its nodes; raises ONNX Runtime's errors."""
    options = quiet_options(GraphOptimizationLevel.ORT_DISABLE_ALL)
    options.optimized_model_filepath = str(to)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    session_of(model, options, [CPU])


def _dims(info: ValueInfoProto) -> tuple[Dim, ...] | None:
    kind = info.type.tensor_type
    return tuple(_dim(d) for d in kind.shape.dim) if kind.HasField("shape") else None


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    size = dim.dim_value if dim.HasField("dim_value") else -1
    return size if size >= 0 else dim.dim_param or None  # some exporters write -1 for unknown


def _static(sizes: Iterable[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dimension(dim_value=size) for size in sizes])


def _substitute(shape: TensorShapeProto, known: Mapping[str, int]) -> None:
    for dim in shape.dim:
        size = known.get(dim.dim_param) or size_named(dim.dim_param, known)
        if size:
            dim.dim_value = size
