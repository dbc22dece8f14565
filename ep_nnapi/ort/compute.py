"""Zero-copy execution of a fused node on ONNX Runtime's input and output buffers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ep_nnapi.graph.value import Value
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import NnapiError
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.api import check
from ep_nnapi.ort.contract import DirectRunner, Runner
from ep_nnapi.ort.direct_slot import DirectSlot

if TYPE_CHECKING:
    from ep_nnapi.ort._native import Call, Tensor


_CHECK_INTERVAL_NS = 5_000_000
"""Nanoseconds between checks of a run's terminate flag: one check takes a few thousand."""


class Terminated(NnapiError):
    """The caller has terminated the run."""


class Termination:
    """Callable that raises Terminated once RunOptions.terminate is set for this run."""

    __slots__ = ("_last_check",)

    def __init__(self) -> None:
        self._last_check = time.monotonic_ns()

    def __call__(self) -> None:
        """Checks the flag, unless the last check was less than 5 ms ago."""
        now = time.monotonic_ns()
        if now - self._last_check > _CHECK_INTERVAL_NS:
            self._last_check = now
            if lib.run_terminated():
                raise Terminated("the run ends early: RunOptions.terminate is set")


class FusedNode:
    """Runs one cluster for a session; thread-safe.

    The C code has read the input tensors before it calls `compute`.
    """

    def __init__(self, runner: Runner, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        self.input_count = len(inputs)
        self.output_count = len(outputs)
        self._runner = runner
        self._inputs = [(i, value.dtype.numpy) for i, value in enumerate(inputs)]
        self._dtypes = [value.dtype.numpy for value in outputs]
        # Cache of each output's last shape, as tuple and C array, and its size in bytes.
        # Each entry is replaced as one tuple, so that threads never see a partial update.
        self._shapes: list[tuple[tuple[int, ...] | None, Any, int]]
        self._shapes = [(None, ffi.NULL, 0)] * len(outputs)
        self.direct = DirectSlot(runner) if isinstance(runner, DirectRunner) else None

    def compute(self, call: Call) -> None:
        """Runs the cluster once; propagates the runner's exceptions."""
        tensors = call.inputs
        inputs = [_input(tensors[i], dtype) for i, dtype in self._inputs]
        stop = Termination()
        if self.direct is not None:
            self.direct.note_uses()
        self._runner(inputs, lambda index, shape: self._allocate(call, index, shape), stop)
        if self.direct is not None:
            self.direct.offer()

    def _allocate(self, call: Call, index: int, shape: tuple[int, ...]) -> Array:
        dtype = self._dtypes[index]
        known, dims, size = self._shapes[index]
        if known != shape:
            dims, size = ffi.new("int64_t[]", shape), prod(shape) * dtype.itemsize
            self._shapes[index] = (shape, dims, size)
        data = lib.make_output(call, index, dims, len(shape))
        if data:
            return np.ndarray(shape, dtype, ffi.buffer(data, size))
        status, call.status = call.status, ffi.NULL
        check(status)
        return np.empty(shape, dtype)


def _input(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    shape = ffi.unpack(tensor.dims, tensor.rank) if tensor.rank else ()
    size = tensor.bytes
    return np.ndarray(shape, dtype, ffi.buffer(tensor.data, size) if size else b"")
