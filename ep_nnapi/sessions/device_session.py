"""Sessions on the CPU provider in which a device computes an NNAPI model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

import numpy as np
import onnxruntime

from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.immutable import frozen

LONG_RUN = 0.5
"""Seconds of a run from which on the next one is supervised, as those with a time limit are.

Supervision takes some 5 % of a run's time; without it, a run may take so long to be interrupted.
"""

ConfigEntries: TypeAlias = tuple[tuple[str, str], ...]
"""Configuration entries of a session, names and values."""

SPIN_BRIEFLY = ("session.intra_op.spin_duration_us", "1000")
"""The setting with which threads without work spin for 1 ms; older ONNX Runtimes ignore it."""
SPIN_ALWAYS: ConfigEntries = ()
SPIN_IN_RUNS: ConfigEntries = (("session.force_spinning_stop", "1"), SPIN_BRIEFLY)
"""Settings with which threads take no processor from the session around them between runs.

The first alone lets them spin for some 40 ms after a session's creation.
"""
SPIN_NEVER: ConfigEntries = (("session.intra_op.allow_spinning", "0"),)

OutputShape: TypeAlias = tuple[int | None, ...]


@frozen
class Threads:
    """Threads of a device's session.

    count     threads of one run; 0: one per core
    settings  configuration entries: when threads without work spin, that is wait actively
    """

    count: int = 0
    settings: ConfigEntries = SPIN_IN_RUNS


@frozen
class DeviceModel:
    """An ONNX model for a device.

    content   the model; its inputs are `inputs` and after them `weights`
    inputs    names of the inputs that a run gets
    outputs   names and shapes of its outputs; None is an unknown size
    weights   arrays that the session reads for as long as it lives
    """

    content: bytes
    inputs: tuple[str, ...]
    outputs: Mapping[str, OutputShape]
    weights: Mapping[str, Array] = field(default_factory=dict)


class Termination(Protocol):
    """Options of one run; setting `terminate` ends it."""

    terminate: bool


class DeviceSession(Protocol):
    """A session that computes a model; thread-safe."""

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array | None],
        options: Termination | None = None,
    ) -> list[Array]:
        """Return the outputs, in the arrays of `outputs` where that is possible.

        outputs   arrays of the right element types, None or too few where there are none
        options   from `run_options`
        """
        ...

    def run_options(self) -> Termination:
        """Return new options for a run."""
        ...


Opener: TypeAlias = Callable[[DeviceModel, Threads], DeviceSession | None]
"""Opens sessions of one API of ONNX Runtime; returns None where that API is not available."""

OPENERS: list[Opener] = []
"""Openers that are asked before a session is opened through ONNX Runtime's Python API."""


def open_session(model: DeviceModel, threads: Threads) -> DeviceSession:
    """Open a session for a device; raises ONNX Runtime's error if it refuses the model."""
    for opener in OPENERS:
        found = opener(model, threads)
        if found is not None:
            return found
    return PythonSession.of(model, onnxruntime.SessionOptions(), threads)


@frozen
class PythonSession:
    """A session of ONNX Runtime's Python API."""

    session: onnxruntime.InferenceSession
    model: DeviceModel

    @staticmethod
    def of(
        model: DeviceModel,
        options: onnxruntime.SessionOptions,
        threads: Threads,
        providers: Sequence[object] = ("CPUExecutionProvider",),
    ) -> PythonSession:
        """Open a session with these options and threads."""
        # import onnx, which `register` does not need
        from ep_nnapi.sessions.cpu import session_of, with_external_weights

        options.log_severity_level = 4
        options.intra_op_num_threads = threads.count
        for key, value in threads.settings:
            options.add_session_config_entry(key, value)
        values = map(onnxruntime.OrtValue.ortvalue_from_numpy, model.weights.values())
        options.add_external_initializers(list(model.weights), list(values))
        content = with_external_weights(model.content, model.weights)
        return PythonSession(session_of(content, options, providers), model)

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array | None],
        options: onnxruntime.RunOptions | None = None,
    ) -> list[Array]:
        """Run the session, as `DeviceSession.run`.

        Large outputs are written where the caller wants them. Small ones are copied, which takes
        less time than binding them.
        """
        feeds = dict(zip(self.model.inputs, inputs, strict=True))
        given = writable(self.model, inputs, outputs)
        whole = [out for out in given if out is not None]
        if len(whole) == len(given) and sum(out.nbytes for out in whole) >= _LARGE:
            self.session.run_with_iobinding(self._bound(feeds, whole), options)
            return whole
        results: list[Array] = self.session.run(list(self.model.outputs), feeds, options)
        return results

    def _bound(self, feeds: Mapping[str, Array], outputs: Sequence[Array]) -> onnxruntime.IOBinding:
        binding = self.session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, out in zip(self.model.outputs, outputs, strict=True):
            place = (out.dtype.type, out.shape, out.ctypes.data)
            binding.bind_output(name, "cpu", 0, *place)
        return binding

    def run_options(self) -> onnxruntime.RunOptions:
        """Return new options for a run."""
        return onnxruntime.RunOptions()


_LARGE = 1 << 16
"""Bytes of outputs from which on they are bound instead of copied."""


def writable(
    model: DeviceModel, inputs: Sequence[Array], outputs: Sequence[Array | None]
) -> list[Array | None]:
    """Return for each output of a model the caller's array if a session may write into it.

    It may if the array has the output's only shape, no gaps, and no memory of an input.
    """
    shapes = model.outputs.values()
    if not outputs:
        return [None] * len(shapes)
    return [
        out
        if out is not None
        and out.shape == shape
        and out.flags.c_contiguous
        and not any(np.may_share_memory(out, array) for array in inputs)
        else None
        for out, shape in zip(outputs, shapes, strict=True)
    ]
