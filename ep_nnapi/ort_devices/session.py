"""ONNX Runtime sessions for converted models: on the CPU provider, or on another one alone."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as Unfinished
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import onnxruntime

from ep_nnapi.nnapi.array import Array, Arrays
from ep_nnapi.nnapi.deadline import called_for
from ep_nnapi.nnapi.errors import module_logger
from ep_nnapi.nnapi.forks import keep_in_children
from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS, Run
from ep_nnapi.nnapi.immutable import replace
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, RunOptions, Spin, delivered
from ep_nnapi.nnapi.shapes.operands import ShapeError
from ep_nnapi.nnapi.work import most_work
from ep_nnapi.ort_devices.opened import Latest, NotTaken
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.to_onnx import WholeModel, convert
from ep_nnapi.sessions import device_session
from ep_nnapi.sessions.cpu import CPU, saturates
from ep_nnapi.sessions.device_session import (
    SPIN_ALWAYS,
    SPIN_IN_RUNS,
    SPIN_NEVER,
    DeviceModel,
    DeviceSession,
    PythonSession,
    Termination,
    Threads,
    open_session,
)

if TYPE_CHECKING:
    from onnxruntime import OrtEpDevice

logger = module_logger(__name__)

_POLL = 0.005
"""Seconds between checks of a supervised run's limits."""
_RATE = 1e9
"""Multiply-accumulates a second, as assumed of a slow processor.

A first run that takes at most LONG_RUN at this rate is not supervised.
"""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PreparedSession:
    """A session that computes a model; thread-safe, executions may be concurrent."""

    session: DeviceSession
    _seconds: float = math.inf  # of the last run; before the first, that it may take
    _largest: tuple[int, float] = (0, 0.0)  # the most elements of inputs, and seconds of that run

    def __post_init__(self) -> None:
        # a forked child can run it, but not destroy it: ONNX Runtime would wait for its threads
        keep_in_children(self)

    def execute(self, inputs: Arrays, outputs: Arrays, options: RunOptions) -> list[Array]:
        """Run the model, as `device.PreparedModel.execute`."""
        feeds = [array for array in inputs if array is not None]
        if len(feeds) < len(inputs):
            missing = next(n for n, array in enumerate(inputs) if array is None)
            raise ShapeError(f"input {missing} is missing, its value is required")
        elements = sum(array.size for array in feeds)
        long = (self.long or self._may_grow_long(elements)) and options.stop is not None
        start = time.perf_counter()
        if long or options.timeout_ns is not None:
            results = self._supervised(feeds, outputs, Run.start(options))
        else:
            if options.stop is not None:
                options.stop()
            results = self._compute(feeds, outputs, None)
        self._seconds = time.perf_counter() - start
        if elements >= self._largest[0]:
            self._largest = elements, self._seconds
        return [*map(delivered, results, outputs)] if outputs else results

    @property
    def long(self) -> bool:
        """True if the last run took so long, or the first may, that the next one is supervised."""
        return self._seconds > device_session.LONG_RUN

    def _may_grow_long(self, elements: int) -> bool:
        """True if a run may be long for more elements than any before, as `may_grow_long` in C."""
        most, seconds = self._largest
        return elements > most > 0 and seconds * (elements / most) > device_session.LONG_RUN

    def direct_session(self) -> DeviceSession | None:
        """Return the session if its runs need no supervision, as `runtime.direct_session`."""
        return None if self.long else self.session

    def _compute(
        self, feeds: Sequence[Array], outputs: Arrays, options: Termination | None
    ) -> list[Array]:
        with CONCURRENT_RUNS.without_blas:
            return self.session.run(feeds, outputs, options)

    def _supervised(self, feeds: Sequence[Array], outputs: Arrays, run: Run) -> list[Array]:
        """Run in another thread, and end the run when its limits are exceeded."""
        run.check()
        flag = self.session.run_options()
        done = called_for(0, partial(self._compute, feeds, outputs, flag))
        try:
            while True:
                try:
                    return done.result(_POLL)
                except Unfinished:
                    run.check()
        except BaseException:
            flag.terminate = True
            wait([done])  # the session reads the caller's memory until then
            raise


_SLOWER = "SkipLayerNormFusion"
"""ONNX Runtime's sum and layer normalization in one kernel takes longer than both one by one."""
_INEXACT = "WeightBiasQuantization"
"""It rounds float weights to 8 bits where a model dequantizes before and quantizes after them."""
_MISTYPES = ("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider")
"""Before ONNX Runtime 1.28 they give the transposed int8 filter of a ConvTranspose another type."""
_MISTYPED = "does not match expected type"
"""What ONNX Runtime says then."""
_SETTINGS = {Spin.ALWAYS: SPIN_ALWAYS, Spin.IN_RUNS: SPIN_IN_RUNS, Spin.NEVER: SPIN_NEVER}


def threads_of(options: CompileOptions, default: int = 0) -> Threads:
    """Threads of a compilation; `default` of them where it names no number."""
    return Threads(options.threads or default, _SETTINGS[options.spin])


def _without(threads: Threads, *optimizers: str) -> Threads:
    """The settings of a session without optimizers of ONNX Runtime."""
    setting = ("optimization.disable_specified_optimizers", ";".join(optimizers))
    return replace(threads, settings=(*threads.settings, setting))


def open_model(
    model: Model,
    chosen: bool | None,
    threads: Threads,
    latest: Latest[WholeModel] | None = None,
) -> PreparedSession:
    """Prepare a model to run in a session.

    chosen   type of quantized weights, see `CpuDevice.int8_weights`
    latest   of the device, from which the lowered model is taken

    Raises Inexpressible unless all operations are supported.
    """
    content = convert(model, kernels(chosen), latest).model()
    with CONCURRENT_RUNS.without_blas:
        try:
            session = open_session(content, _without(threads, _SLOWER, _INEXACT))
        except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
            if _MISTYPED not in str(error):
                raise
            session = _untransposed(content, threads, error)
    return PreparedSession(session, most_work(model) / _RATE)


def _untransposed(content: DeviceModel, threads: Threads, error: Exception) -> DeviceSession:
    """A session without _MISTYPES; raises `error`, that of the session with them, if it fails."""
    try:
        session = open_session(content, _without(threads, _SLOWER, _INEXACT, *_MISTYPES))
    except Exception:  # as above
        raise error from None
    logger.warning(
        "a cluster runs without ONNX Runtime's transpose optimizers, perhaps slower: "
        "onnxruntime %s makes no session with them (%s); 1.28 or newer does",
        onnxruntime.__version__,
        _sentence(error),
    )
    return session


def kernels(chosen: bool | None) -> Kernels:
    """Kernels to use; weights are int8 as chosen, or where their products do not saturate."""
    return Kernels(int8_weights=not saturates() if chosen is None else chosen, fused=True)


_FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}
_OPTIONS = {
    "OpenVINOExecutionProvider": {"load_config": json.dumps({"CPU": _FLOAT32, "GPU": _FLOAT32})}
}
"""Options of providers that compute float32 in a shorter type where the hardware has one."""


def open_on_provider(model: Model, provider: OrtEpDevice, threads: Threads) -> PreparedSession:
    """Prepare a model to run on a provider alone.

    Raises Inexpressible for operations that have no ONNX form, NotTaken if the provider does not
    take all nodes.
    """
    found = convert(model)
    options = onnxruntime.SessionOptions()
    if provider.ep_name != CPU:
        # otherwise ONNX Runtime would quietly put a session on the CPU that finds no GPU
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([provider], _OPTIONS.get(provider.ep_name, {}))
    try:
        with CONCURRENT_RUNS.without_blas:
            session = PythonSession.of(found.model(), options, _without(threads, _INEXACT), ())
    except Exception as error:  # ONNX Runtime's exceptions have no common base of their own
        raise NotTaken(f"{provider.ep_name} does not take it all: {_sentence(error)}") from None
    if provider.ep_name not in session.session.get_providers():
        raise NotTaken(f"{provider.ep_name} has no hardware to run on")
    return PreparedSession(session)


def _sentence(error: Exception) -> str:
    return str(error).partition("\n")[0]
