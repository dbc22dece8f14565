"""Sessions of devices through the C API of the ONNX Runtime that has loaded the plugin.

Fused nodes run in them without Python: see direct_run.c.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.forks import keep_in_children
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, check
from ep_nnapi.ort.reader import view
from ep_nnapi.sessions.device_session import DeviceModel, Settings, Termination, Threads, writable

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData

_FORK_POLL = 0.0005
"""Seconds between looks for runs that a fork waits for."""


class SessionError(Exception):
    """ONNX Runtime refuses a model or a run, as it does by exceptions of its Python API.

    Unlike OrtError it is an error of a device, which the runtime reports as a failure.
    """


def _check(status: CData) -> None:
    """Release `status` and raise SessionError with its message; NULL means success."""
    try:
        check(status)
    except OrtError as error:
        raise SessionError(str(error)) from None


class InnerRunOptions:
    """Options of one run of an inner session."""

    def __init__(self) -> None:
        made = ffi.new("OrtRunOptions **")
        _check(lib.new_run_options(made))
        self.struct = ffi.gc(made[0], lib.release_run_options)

    @property
    def terminate(self) -> bool:
        """False: a run's options are asked to terminate, never asked if they are."""
        return False

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if value:
            _check(lib.terminate_run(self.struct))


class InnerSession:
    """A session on the CPU provider; see `DeviceSession` for the methods.

    struct         its InnerSession in C
    input_names, output_names   of its model, in C
    """

    def __init__(self, model: DeviceModel, threads: Threads) -> None:
        self.model = model
        self.input_names, self._inputs = _strings(model.inputs)
        self.output_names, self._outputs = _strings(model.outputs)
        names, owned = _strings(model.weights)
        weights, arrays = _named(names, list(model.weights.values()))
        settings, kept = _settings(threads.settings)
        made = ffi.new("InnerSession **")
        content = ffi.from_buffer(model.content)
        inputs = (self.input_names, len(model.inputs))
        given = ffi.new("InnerModel *", (content, len(content), *inputs, weights))
        chosen = (threads.count, settings, len(threads.settings))
        _check(lib.open_inner_session(given, *chosen, made))
        self.struct = ffi.gc(made[0], lib.close_inner_session)
        keep_in_children(self)
        del owned, arrays, kept

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array | None],
        options: Termination | None = None,
    ) -> list[Array]:
        """Run the session, as `DeviceSession.run`; a result without a place is a copy."""
        given = [np.asarray(array, order="C") for array in inputs]
        places = writable(self.model, given, outputs)
        feeds, _feeds = _named(self.input_names, given)
        wanted, _wanted = _named(self.output_names, places)
        results = ffi.new("OrtValue *[]", len(places))
        flag = options.struct if isinstance(options, InnerRunOptions) else ffi.NULL
        try:
            _check(lib.run_inner_session(self.struct, feeds, wanted, flag, results))
            return [_copied(results[i]) if out is None else out for i, out in enumerate(places)]
        finally:
            for result in results:
                if result:
                    lib.release_value(result)

    def run_options(self) -> InnerRunOptions:
        """Return new options for a run."""
        return InnerRunOptions()


def open_inner_session(model: DeviceModel, threads: Threads) -> InnerSession | None:
    """Open a session, see `Opener`; None before ONNX Runtime has loaded the plugin."""
    return InnerSession(model, threads) if lib.has_api() else None


def _copied(result: CData) -> Array:
    tensor = ffi.new("Tensor *")
    _check(lib.read_result(result, tensor))
    return view(tensor).copy()


def _named(names: CData, arrays: Sequence[Array | None]) -> tuple[CData, object]:
    """Return a NamedTensors, without data for None, and what must live as long as it."""
    tensors, owned = ffi.new("Tensor[]", len(arrays)), []
    for tensor, array in zip(tensors, arrays, strict=True):
        if array is None:
            continue
        dims = ffi.new("int64_t[]", array.shape)
        owned.append((dims, array))
        tensor.dtype, tensor.rank, tensor.dims = DType.of(array.dtype), array.ndim, dims
        tensor.data = ffi.cast("void *", array.ctypes.data)
        tensor.bytes = array.nbytes
    named = ffi.new("NamedTensors *", (names, tensors, len(arrays)))
    return named, (tensors, owned)


def _strings(texts: Sequence[str] | Mapping[str, object]) -> tuple[CData, object]:
    """Return an array of C strings, and what must live as long as it."""
    owned = [ffi.new("char[]", text.encode()) for text in texts]
    return ffi.new("const char *[]", owned), owned


def _settings(entries: Settings) -> tuple[CData, object]:
    """Return an array of SessionSetting, and what must live as long as it."""
    owned = [
        (ffi.new("char[]", key.encode()), ffi.new("char[]", value.encode()))
        for key, value in entries
    ]
    return ffi.new("SessionSetting[]", owned), owned


def _before_fork() -> None:
    """Wait for the end of runs without Python; see `ConcurrentRuns` for those with it."""
    lib.hold_direct_runs(1)
    while lib.count_direct_runs():
        time.sleep(_FORK_POLL)


def _after_fork_in_parent() -> None:
    lib.hold_direct_runs(0)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=lib.forget_direct_runs,
)
