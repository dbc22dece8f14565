"""Conversion of the models and inputs that Python callers may pass.

onnx and numpy are imported only for data in memory, so that preparing files needs neither here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ep_nnapi.nnapi.errors import ModelError, OptionError

if TYPE_CHECKING:
    from onnx import ModelProto

    from ep_nnapi.graph.onnx_io import Loadable
    from ep_nnapi.nnapi.array import Array

_ORT_MARK = b"ORTM"  # the FlatBuffers identifier of the ORT format, at offset 4


class ExportedProgram(Protocol):
    """The part used here of what torch.onnx.export returns (ONNXProgram)."""

    @property
    def model_proto(self) -> ModelProto:
        """The model."""


ModelSource: TypeAlias = "str | PathLike[str] | bytes | ModelProto | ExportedProgram"
Inputs: TypeAlias = object
"""Paths as for `read_feeds`, an array, a dictionary from names to arrays, or a list of arrays."""
ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and of all steps."""


def loadable(model: object) -> Loadable:
    """Returns a path or the bytes of a model; raises ModelError for unsupported types."""
    if isinstance(model, str) and not model:
        raise ModelError("the path of the model is empty")
    if isinstance(model, str | PathLike | bytes):
        return model
    if isinstance(model, bytearray | memoryview):
        return bytes(model)
    from onnx import ModelProto

    proto = getattr(model, "model_proto", model)
    if not isinstance(proto, ModelProto):
        raise ModelError(
            f"the model is of type {type(model).__name__}; it must be a path, bytes, an "
            "onnx.ModelProto or an ONNXProgram of torch.onnx.export"
        )
    try:
        return bytes(proto.SerializeToString())
    except Exception as error:  # above 2 GB; the type varies between protobuf versions
        raise ModelError(
            f"the model cannot be written as bytes ({error}); save it with external data and give "
            "its path"
        ) from None


@contextmanager
def as_files(model: object, inputs: Inputs) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yields paths of the model and inputs; writes data in memory to temporary files."""
    given = loadable(model)
    with TemporaryDirectory(prefix="ep-nnapi-") as folder:
        if isinstance(given, bytes):
            path = Path(folder, "model.ort" if given[4:8] == _ORT_MARK else "model.onnx")
            path.write_bytes(given)
        else:
            path = Path(given)
        yield path, _files(inputs, Path(folder))


def paths_of(inputs: Inputs) -> tuple[str, ...] | None:
    """Returns inputs given as paths; None for arrays."""
    if inputs is None:
        return ()
    if isinstance(inputs, str | PathLike):
        return (str(inputs),)
    if isinstance(inputs, list | tuple) and all(isinstance(i, str | PathLike) for i in inputs):
        return tuple(map(str, inputs))
    return None


def arrays_of(inputs: Inputs) -> dict[str, Array] | tuple[Array, ...]:
    """Returns arrays by name, or in the order of inputs; raises OptionError for other types."""
    if isinstance(inputs, Mapping):
        return {str(name): _array(str(name), value) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return tuple(_array(str(i), value) for i, value in enumerate(inputs))
    if hasattr(inputs, "__array__"):
        return (_array("0", inputs),)
    raise OptionError(
        f"inputs are of type {type(inputs).__name__}; they must be paths, an array, a dictionary "
        "from names to arrays or a list of arrays"
    )


def _array(name: str, value: object) -> Array:
    import numpy as np

    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # RuntimeError: a tensor with gradients
        raise OptionError(f"input {name} is no array: {error}") from None
    if array.dtype.kind not in "biuf":
        if isinstance(value, np.ndarray):
            raise OptionError(
                f"input {name} is an array of {array.dtype}; give one of real numbers"
            )
        raise OptionError(f"input {name} is of type {type(value).__name__}, which is no array")
    return array


def _files(inputs: Inputs, folder: Path) -> tuple[str, ...]:
    paths = paths_of(inputs)
    if paths is not None:
        return paths
    import numpy as np

    arrays, path = arrays_of(inputs), folder / "inputs.npz"
    if isinstance(arrays, dict):
        np.savez(path, allow_pickle=False, **arrays)
    else:
        np.savez(path, *arrays, allow_pickle=False)
    return (str(path),)
