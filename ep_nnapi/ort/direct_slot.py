"""Sessions that run fused nodes without Python, as C code sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ep_nnapi.lowering.border import Place
from ep_nnapi.nnapi.forks import ForkableLock
from ep_nnapi.ort._native import ffi, lib
from ep_nnapi.ort.contract import DirectRunner
from ep_nnapi.ort.inner_session import InnerSession
from ep_nnapi.sessions import device_session

if TYPE_CHECKING:
    from ep_nnapi.ort._native import CData
    from ep_nnapi.provider.direct_run import DirectRun

_lock = ForkableLock()
"""Held while a runner is asked and C code told, so that no withdrawal is lost in between."""


class _Entry:
    """One of the runs that C code chooses from.

    session, used  of the run; None once there is none
    kept           its struct and what it refers to, after those that C code may still use
    """

    def __init__(self) -> None:
        self.session: InnerSession | None = None
        self.used: Callable[[], object] | None = None
        self.kept: list[tuple[CData, object]] = [(ffi.NULL, None)]

    def change(self, session: InnerSession, run: DirectRun, counts: CData) -> None:
        """Replaces the run; C code has to be told."""
        self.session, self.used = session, run.used
        self.kept.append(_run_struct(session, run, counts))

    def clear(self) -> None:
        """Removes the run; C code has to be told."""
        if self.session is not None:
            self.session = self.used = None
            self.kept.append((ffi.NULL, None))


class DirectSlot:
    """The sessions, if any, that C code runs a fused node in."""

    def __init__(self, runner: DirectRunner) -> None:
        self._runner = runner
        self._compute: CData | None = None
        self._entries: list[_Entry] = []
        self._counts: dict[object, CData] = {}

    def attach(self, compute: CData) -> None:
        """Sets the PyCompute of the fused node, which lives as long as this object."""
        self._compute = compute

    def note_uses(self) -> None:
        """Tells the runner, before it runs, in which sessions C code has, the last one at last."""
        with _lock:
            if self._compute is None:
                return
            times = [lib.last_direct_run(self._compute, i) for i in range(len(self._entries))]
            for time, i in sorted(zip(times, range(len(times)), strict=True)):
                used = self._entries[i].used
                if time > 0 and used is not None:
                    used()

    def offer(self) -> None:
        """Lets C code run the node from now on, unless its runner is needed."""
        with _lock:
            if self._compute is None:
                return
            wanted = self._wanted()
            for entry in self._entries:
                if entry.session not in wanted:
                    entry.clear()
            for session in wanted.keys() - {entry.session for entry in self._entries}:
                run = wanted[session]
                self._free_entry().change(session, run, self._counts_of(run))
            for i, entry in enumerate(self._entries):
                if lib.set_direct_run(self._compute, i, entry.kept[-1][0]):
                    del entry.kept[:-1]

    def _counts_of(self, run: DirectRun) -> CData:
        """Returns what counts runs like this one, which is on the cluster's record from now on."""
        if run.by not in self._counts:
            self._counts[run.by] = counts = ffi.new("DirectCounts *", {"timed": run.timed})
            run.count(lambda: (counts.runs, counts.total_ns, counts.least_ns))
        return self._counts[run.by]

    def _wanted(self) -> dict[InnerSession, DirectRun]:
        """Returns what C code can do of the runs that the runner allows, those that ran last."""
        possible = [
            (run.session, run)
            for run in self._runner.direct_runs()
            if isinstance(run.session, InnerSession)
            and max(len(run.tensors.inputs), len(run.tensors.outputs)) <= lib.MOST_DIRECT_TENSORS
        ]
        return dict(possible[: lib.MOST_DIRECT_RUNS])

    def _free_entry(self) -> _Entry:
        for entry in self._entries:
            if entry.session is None:
                return entry
        self._entries.append(_Entry())
        return self._entries[-1]

    def withdraw(self) -> None:
        """Has the next run go through Python, which offers the sessions again if it may."""
        with _lock:
            if self._compute is not None:
                for i in range(len(self._entries)):
                    lib.set_direct_run(self._compute, i, ffi.NULL)


def _run_struct(session: InnerSession, direct: DirectRun, counts: CData) -> tuple[CData, object]:
    """Returns a DirectRun in C, and what must live as long as it."""
    given, owned_given = _tensors(direct.given)
    inputs, owned_inputs = _tensors(direct.tensors.inputs)
    outputs, owned_outputs = _tensors(direct.tensors.outputs)
    run = ffi.new("DirectRun *")
    run.session = session.struct
    run.input_names, run.output_names = session.input_names, session.output_names
    run.given, run.inputs, run.outputs = given, inputs, outputs
    run.given_count, run.input_count, run.output_count = len(given), len(inputs), len(outputs)
    run.long_ns = round(device_session.LONG_RUN * 1e9)
    run.counts = counts
    owned = owned_given, owned_inputs, owned_outputs
    return run, (session, given, inputs, outputs, owned, counts)


def _tensors(places: Sequence[Place]) -> tuple[CData, object]:
    """Returns an array of DirectTensor, and what must live as long as it."""
    dims = [ffi.new("int64_t[]", place.shape) for place in places]
    contents = [ffi.NULL if p.contents is None else ffi.from_buffer(p.contents) for p in places]
    made = [
        (p.position, len(p.shape), sizes, p.narrowed, known, len(p.contents or b""))
        for p, sizes, known in zip(places, dims, contents, strict=True)
    ]
    return ffi.new("DirectTensor[]", made), (dims, contents)
