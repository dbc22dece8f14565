"""ONNX Runtime session with the NNAPI provider that takes and returns PyTorch tensors."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakSet

import torch

from ep_nnapi.diagnostics.session_runs import open_session
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError, NnapiError
from ep_nnapi.options.table import options_of_session
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.cpu import exact_options
from ep_nnapi.torch.export import model_of
from ep_nnapi.torch.structure import REAL_PARTS

_open: WeakSet[TensorSession] = WeakSet()
_numpy, _tensor = torch.Tensor.numpy, torch.from_numpy


class TensorSession:
    """A session whose inputs and outputs are CPU tensors, in the order of the model's.

    Tensors are not copied on their way in or out if they are contiguous.
    """

    def __init__(self, model: str | bytes, options: Mapping[str, object]) -> None:
        """Opens the session.

        model     the path or the bytes of an ONNX or ORT-format model
        options   the provider's
        Raises OptionError for invalid options, ModelError if the model cannot be loaded.
        """
        chosen = options_of_session(options)
        provider = Provider(chosen)
        settings = exact_options()
        if chosen.intra_op_num_threads:
            settings.intra_op_num_threads = chosen.intra_op_num_threads
        self.session = open_session(model, settings, provider)
        self._provider = provider
        for value in (*self.session.get_inputs(), *self.session.get_outputs()):
            if "bfloat16" in value.type:
                raise ModelError(
                    f"{value.name} is of type bfloat16, which numpy and NNAPI do not have; "
                    "convert the module by its method float()"
                )
        _open.add(self)
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]
        # beneath the public run, which looks for each input's name again: several µs a call
        self._run = getattr(self.session, "_sess", self.session).run

    @property
    def report(self) -> Report:
        """The nodes that NNAPI takes, and why it does not take the others."""
        return self._provider.report

    @property
    def metadata(self) -> Mapping[str, str]:
        """The model's metadata."""
        entries: dict[str, str] = self.session.get_modelmeta().custom_metadata_map
        return entries

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the outputs as tensors.

        Raises ModelError for inputs of other types or sizes, NnapiError if the model cannot run.
        """
        try:
            return self._outputs(map(_numpy, tensors))
        except Exception:  # of no common base class: slowly again, to convert or to say why not
            return self._converted(tensors)

    def _outputs(self, arrays: Iterable[Array]) -> list[torch.Tensor]:
        feeds = dict(zip(self.inputs, arrays, strict=True))
        return list(map(_tensor, self._run(self.outputs, feeds, None)))

    def _converted(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        arrays = list(map(_array, tensors))
        try:
            return self._outputs(arrays)
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            if any(tensor.is_complex() for tensor in tensors):
                raise ModelError(f"an input is a complex tensor; {REAL_PARTS}") from None
            said = " ".join(str(error).partition(" Please fix")[0].split()).rpartition(" : ")[2]
            if "invalid dimensions" in said:
                said += "; convert for sizes that vary by to_nnapi(..., dynamic_shapes=...)"
            kind = ModelError if "INVALID_ARGUMENT" in str(error) else NnapiError
            raise kind(said) from None

    def close(self) -> None:
        """Releases the session; it cannot run afterwards."""
        del self.session, self._run


def session_of(program: torch.onnx.ONNXProgram, options: Mapping[str, object]) -> TensorSession:
    """Returns a session of a program.

    Raises ModelError if it cannot be loaded, with a type of its own that NNAPI does not have.
    """
    try:
        with model_of(program) as model:
            return TensorSession(model, options)
    except ModelError as error:
        graph = program.model.graph
        for value in (*graph.initializers.values(), *graph.inputs):
            if value.dtype is not None and value.dtype.name in ("BFLOAT16", "DOUBLE"):
                raise ModelError(
                    f"{value.name} is of type {value.dtype.name}, which NNAPI does not have; "
                    f"convert the module and its inputs by float() ({error})"
                ) from error
        raise


@atexit.register
def _close_all() -> None:
    """Closes what PyTorch keeps beyond the end of Python, where this package is gone already."""
    for session in list(_open):
        session.close()


def _array(tensor: torch.Tensor) -> Array:
    """Returns the tensor as an array; copies what cannot be shared, as on another device."""
    try:
        array: Array = tensor.numpy(force=True)
    except (RuntimeError, TypeError):  # bfloat16, sparse, on the device meta
        raise ModelError(
            f"a tensor of type {tensor.dtype}, layout {tensor.layout} and device "
            f"{tensor.device} cannot be an input; convert it to a dense one that numpy has"
        ) from None
    return array
