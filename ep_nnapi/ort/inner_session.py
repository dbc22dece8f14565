"""Sessions of devices through the C API of the ONNX Runtime that has loaded the plugin.

Fused nodes run in them without Python: see direct_run.c.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ep_nnapi.graph.value import DType
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.forks import keep_in_children
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import OrtError, api, check, strings
from ep_nnapi.ort.reader import view
from ep_nnapi.sessions.device_session import DeviceModel, Termination, Threads, writable

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData

_WARNING, _FATAL = 2, 4  # Source: OrtLoggingLevel.
_ARENA, _DEFAULT = 1, 0  # Source: OrtAllocatorType, OrtMemType.
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
        self.struct = _made("OrtRunOptions", api().CreateRunOptions, api().ReleaseRunOptions)

    @property
    def terminate(self) -> bool:
        """False: a run's options are asked to terminate, never asked if they are."""
        return False

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if value:
            _check(api().RunOptionsSetTerminate(self.struct))


class InnerSession:
    """A session on the CPU provider; see `DeviceSession` for the methods.

    struct         its InnerSession in C
    input_names, output_names   of its model, in C
    """

    def __init__(self, model: DeviceModel, threads: Threads) -> None:
        self.model = model
        self.input_names, self._inputs = strings(model.inputs)
        self.output_names, self._outputs = strings(model.outputs)
        self.struct = ffi.gc(ffi.new("InnerSession *"), lib.close_inner_session)
        self._open(threads)
        keep_in_children(self)

    def _open(self, threads: Threads) -> None:
        """Opens the session; it reads the memory of the weights while it lives."""
        ort, editor, struct = api(), api().GetModelEditorApi(), self.struct
        env, memory, session = (ffi.addressof(struct, n) for n in ("env", "memory", "session"))
        _check(ort.CreateEnv(_WARNING, b"ep_nnapi", env))  # the process's own, once more
        _check(ort.CreateCpuMemoryInfo(_ARENA, _DEFAULT, memory))
        options = _made("OrtSessionOptions", ort.CreateSessionOptions, ort.ReleaseSessionOptions)
        _check(ort.SetSessionLogSeverityLevel(options, _FATAL))
        _check(ort.SetIntraOpNumThreads(options, threads.count))
        if threads.count > 1:  # those of 0 are bound to processors
            _check(lib.hold_threads(struct, options))
        for key, value in threads.settings:
            _check(ort.AddSessionConfigEntry(options, key.encode(), value.encode()))
        content = ffi.from_buffer(self.model.content)
        model = (content, len(content), options, session)
        _check(editor.CreateModelEditorSessionFromArray(struct.env, *model))
        create = partial(editor.CreateModel, ffi.NULL, ffi.NULL, 0)
        changes = _made("OrtModel", create, ort.ReleaseModel)
        graph = ffi.new("OrtGraph **")
        _check(editor.CreateGraph(graph))
        try:
            self._fill(graph[0])
            _check(editor.AddGraphToModel(changes, graph[0]))
        except SessionError:
            ort.ReleaseGraph(graph[0])
            raise
        _check(editor.ApplyModelToModelEditorSession(struct.session, changes))
        _check(editor.FinalizeModelEditorSession(struct.session, options, ffi.NULL))

    def _fill(self, graph: CData) -> None:
        """Replaces the inputs that stand for weights by the weights themselves, where they are.

        What a graph does not take over is released.
        """
        ort, editor, struct = api(), api().GetModelEditorApi(), self.struct
        inputs = ffi.new("OrtValueInfo *[]", len(self.model.inputs))
        try:
            for i, name in enumerate(self.model.inputs):
                read = partial(ort.SessionGetInputTypeInfo, struct.session, i)
                kind = _made("OrtTypeInfo", read, ort.ReleaseTypeInfo)
                _check(editor.CreateValueInfo(name.encode(), kind, inputs + i))
            _check(editor.SetGraphInputs(graph, inputs, len(inputs)))
        except SessionError:
            for value in filter(None, inputs):
                ort.ReleaseValueInfo(value)
            raise
        for name, array in self.model.weights.items():
            value = ffi.new("OrtValue **")
            data = ffi.cast("void *", array.ctypes.data)
            tensor = (data, array.nbytes, array.shape, array.ndim, DType.of(array.dtype))
            _check(ort.CreateTensorWithDataAsOrtValue(struct.memory, *tensor, value))
            status = editor.AddInitializerToGraph(graph, name.encode(), value[0], True)
            if status:
                ort.ReleaseValue(value[0])
            _check(status)

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
                    api().ReleaseValue(result)

    def run_options(self) -> InnerRunOptions:
        """Return new options for a run."""
        return InnerRunOptions()


def open_inner_session(model: DeviceModel, threads: Threads) -> InnerSession | None:
    """Open a session, see `Opener`; None before ONNX Runtime has loaded the plugin."""
    return InnerSession(model, threads) if api() else None


def _copied(result: CData) -> Array:
    tensor = ffi.new("Tensor *")
    _check(lib.read_tensor(result, tensor))
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


def _made(kind: str, make: Callable[[CData], CData], release: CData) -> CData:
    """Return what a function of ONNX Runtime's makes, which is released with it."""
    out = ffi.new(f"{kind} **")
    _check(make(out))
    made: CData = ffi.gc(out[0], release)
    return made


def _before_fork() -> None:
    """Wait for the end of runs without Python; see `ConcurrentRuns` for those with it."""
    lib.hold_direct_runs(1)
    while lib.count_direct_runs():
        time.sleep(_FORK_POLL)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=partial(lib.hold_direct_runs, 0),
    after_in_child=lib.forget_direct_runs,
)
