"""Sessions of candidates: device placement, outputs, accuracy, and runs to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

from ep_nnapi.diagnostics.check import given_to_session, open_session
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.run_and_compare import compared
from ep_nnapi.diagnostics.session_runs import outputs_of
from ep_nnapi.diagnostics.verdict import Runs, Verdict
from ep_nnapi.nnapi.array import Array
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import SESSION_LEVELS, register
from ep_nnapi.preparation.job import Format, Job, Level
from ep_nnapi.preparation.ort_export import save_onnx
from ep_nnapi.provider.provider import Provider
from ep_nnapi.report.report import Report
from ep_nnapi.sessions.cpu import CPU, exact_options
from ep_nnapi.tuning.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to tune, with its inputs and what the CPU provider computes from them.

    feeds      inputs to measure with; only the first are run repeatedly
    accuracy   inputs to judge the accuracy with
    want       the CPU provider's outputs for these
    tolerance  relative to an output's spread; None: by its kind
    folder     for models saved at a level
    """

    model: str | bytes
    feeds: Feeds
    accuracy: Feeds
    want: Runs
    tolerance: float | None
    folder: Path

    def judged(self, got: Sequence[Mapping[str, Array]], options: Mapping[str, object]) -> Verdict:
        """Returns the verdict on a candidate's outputs."""
        half = NnapiFlag.USE_FP16 in parse(options).flags
        outputs = (got, self.want)
        return compared(self.model, self.accuracy.runs, outputs, self.tolerance, half=half)

    def within(self, verdict: Verdict) -> bool:
        """True if outputs are within the tolerance.

        The default tolerances also allow what is no less accurate than the CPU provider.
        """
        if self.tolerance is None:
            return not verdict.negative
        return not any(d.exceeds for d in verdict.differences)

    def outputs(self, candidate: Candidate) -> list[Mapping[str, Array]]:
        """Returns a candidate's outputs for the inputs of the accuracy."""
        return self.open(candidate).outputs(self.accuracy)

    def open(self, candidate: Candidate) -> Session:
        """Returns a session of the candidate; raises ModelError, OptionError and NnapiError."""
        options = exact_options()
        # threads that spin after a run would take processor time from the next candidate
        options.add_session_config_entry("session.force_spinning_stop", "1")
        threads = parse(candidate.options).intra_op_num_threads
        options.graph_optimization_level = SESSION_LEVELS[candidate.level]
        if candidate.on_cpu:
            options.intra_op_num_threads = threads or 0
            return Session(open_session(self.model, options, [CPU]))
        model = self.model
        if candidate.level == "extended":  # fused before NNAPI sees the nodes, as `prepare` saves
            model = self._saved_at_extended()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        register()
        provider = Provider(parse(candidate.options))
        with given_to_session(provider) as (strings, found):
            session = open_session(model, options, [(EP_NAME, strings), CPU])
            return Session(session, found())

    def _saved_at_extended(self) -> str:
        saved = self.folder / "extended.onnx"
        if not saved.exists():
            save_onnx(self.model, saved, Job(Level.EXTENDED, Format.ONNX))
        return str(saved)


@dataclass(frozen=True, slots=True)
class Session:
    """A stock session, with its provider if NNAPI is on."""

    session: onnxruntime.InferenceSession
    provider: Provider | None = None

    @property
    def report(self) -> Report | None:
        """Device placement; None with the provider off."""
        return None if self.provider is None else self.provider.report

    def outputs(self, feeds: Feeds) -> list[Mapping[str, Array]]:
        """Returns the outputs of each run."""
        return [outputs_of(self.session, fed, self.provider) for fed in feeds.runs]

    def run(self, feeds: Feeds) -> None:
        """Runs the first inputs once."""
        self.session.run(None, dict(feeds.runs[0]))
