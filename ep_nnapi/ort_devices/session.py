"""Sessions on ONNX Runtime's CPU provider for converted models."""

from __future__ import annotations

from dataclasses import replace

from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.model import Model
from ep_nnapi.nnapi.runtime import CompileOptions, Spin
from ep_nnapi.ort_devices.convert import convert
from ep_nnapi.ort_devices.operation import Kernels
from ep_nnapi.ort_devices.prepared import PreparedSession
from ep_nnapi.sessions.cpu import saturates
from ep_nnapi.sessions.device_session import (
    SPIN_ALWAYS,
    SPIN_IN_RUNS,
    SPIN_NEVER,
    Threads,
    open_session,
)

_LEFT_OUT = (("optimization.disable_specified_optimizers", "SkipLayerNormFusion"),)
"""ONNX Runtime's sum and layer normalization in one kernel takes longer than both one by one."""
_SETTINGS = {Spin.ALWAYS: SPIN_ALWAYS, Spin.IN_RUNS: SPIN_IN_RUNS, Spin.NEVER: SPIN_NEVER}


def threads_of(options: CompileOptions, default: int = 0) -> Threads:
    """Threads of a compilation; `default` of them where it names no number."""
    return Threads(options.threads or default, _SETTINGS[options.spin])


def open_model(model: Model, chosen: bool | None, threads: Threads) -> PreparedSession:
    """Prepare a model to run in a session.

    chosen   type of quantized weights, see `CpuDevice.int8_weights`

    Raises Inexpressible unless all operations are supported.
    """
    found = convert(model, kernels(chosen))
    threads = replace(threads, settings=(*threads.settings, *_LEFT_OUT))
    with CONCURRENT_RUNS.without_blas:
        return PreparedSession(open_session(found.model(), threads))


def kernels(chosen: bool | None) -> Kernels:
    """Kernels to use; weights are int8 as chosen, or where their products do not saturate."""
    return Kernels(int8_weights=not saturates() if chosen is None else chosen, fused=True)
