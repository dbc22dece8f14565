"""Sessions on ONNX Runtime's CPU provider for converted models."""

from __future__ import annotations

from functools import partial

from ep_nnapi.nnapi.host.concurrent_runs import CONCURRENT_RUNS
from ep_nnapi.nnapi.host.device import PreparedModel
from ep_nnapi.nnapi.host.engines.convert import convert
from ep_nnapi.nnapi.host.engines.omitted import (
    PreparedVariants,
    optional_inputs,
    probably_omitted,
)
from ep_nnapi.nnapi.host.engines.operation import Kernels
from ep_nnapi.nnapi.host.engines.prepared import PreparedSession
from ep_nnapi.nnapi.model import Model
from ep_nnapi.sessions.cpu import saturates
from ep_nnapi.sessions.device_session import open_session


def open_model(model: Model, chosen: bool | None, threads: int) -> PreparedModel:
    """Prepare a model to run in a session.

    chosen   type of quantized weights, see `CpuDevice.int8_weights`

    Raises Inexpressible unless all operations are supported.
    """
    if not optional_inputs(model):
        return _session(chosen, threads, model)
    found = PreparedVariants(model, partial(_session, chosen, threads))
    found.variant(probably_omitted(model))
    return found


def kernels(chosen: bool | None) -> Kernels:
    """Kernels to use; weights are int8 as chosen, or where their products do not saturate."""
    return Kernels(int8_weights=not saturates() if chosen is None else chosen, fused=True)


def _session(chosen: bool | None, threads: int, model: Model) -> PreparedSession:
    """Convert a model and open a session for it."""
    found = convert(model, kernels(chosen))
    with CONCURRENT_RUNS.without_blas:
        return PreparedSession(open_session(found.model(), threads), found.loops)
