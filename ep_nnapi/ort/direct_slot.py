"""Sessions that run fused nodes without Python, as C code sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ep_nnapi.lowering.border import Place, Unconverted
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.contract import DirectRunner
from ep_nnapi.ort.inner_session import InnerSession
from ep_nnapi.sessions import device_session

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData

_lock = ForkableLock()
"""Held while a runner is asked and C code told, so that no withdrawal is lost in between."""


class DirectSlot:
    """The session, if any, that C code runs a fused node in."""

    def __init__(self, runner: DirectRunner) -> None:
        self._runner = runner
        self._compute: CData | None = None
        # C code may still run in any of them
        self._offered: dict[InnerSession, tuple[CData, object]] = {}

    def attach(self, compute: CData) -> None:
        """Sets the PyCompute of the fused node, which lives as long as this object."""
        self._compute = compute

    def offer(self) -> None:
        """Lets C code run the node from now on, unless its runner is needed."""
        with _lock:
            direct = self._runner.direct()
            if self._compute is None or direct is None:
                return
            session, tensors = direct.session, direct.tensors
            if not isinstance(session, InnerSession):
                return
            if max(len(tensors.inputs), len(tensors.outputs)) > lib.MOST_DIRECT_TENSORS:
                return
            if session not in self._offered:
                self._offered[session] = _run_struct(session, tensors)
            lib.set_direct_run(self._compute, self._offered[session][0])

    def withdraw(self) -> None:
        """Has the next run go through Python, which offers the session again if it may."""
        with _lock:
            if self._compute is not None:
                lib.set_direct_run(self._compute, ffi.NULL)


def _run_struct(session: InnerSession, tensors: Unconverted) -> tuple[CData, object]:
    """Returns a DirectRun, and what must live as long as it."""
    inputs, owned_inputs = _tensors(tensors.inputs)
    outputs, owned_outputs = _tensors(tensors.outputs)
    run = ffi.new("DirectRun *")
    run.session = session.struct
    run.input_names, run.output_names = session.input_names, session.output_names
    run.inputs, run.outputs = inputs, outputs
    run.input_count, run.output_count = len(tensors.inputs), len(tensors.outputs)
    run.long_ns = round(device_session.LONG_RUN * 1e9)
    return run, (session, inputs, outputs, owned_inputs, owned_outputs)


def _tensors(places: Sequence[Place]) -> tuple[CData, object]:
    """Returns an array of DirectTensor, and what must live as long as it."""
    dims = [ffi.new("int64_t[]", place.shape) for place in places]
    made = [
        (place.position, len(place.shape), sizes, place.narrowed)
        for place, sizes in zip(places, dims, strict=True)
    ]
    return ffi.new("DirectTensor[]", made), dims
