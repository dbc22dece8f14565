"""The fastest way to run a model within a tolerance, as a settings file: `tune`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, ProgressCallback, paths_of
from ep_nnapi.diagnostics.session_runs import (
    feeds_of,
    open_session,
    outputs_of,
    source,
    varied_feeds,
)
from ep_nnapi.nnapi.errors import ModelError, OptionError
from ep_nnapi.nnapi.files import require_writable
from ep_nnapi.options import values
from ep_nnapi.options.fixed import contents_in
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.settings import FILE_OPTIONS, Settings
from ep_nnapi.options.table import OptionKeywords, parse, without
from ep_nnapi.options.values import to_text
from ep_nnapi.provider.provider import planner_of
from ep_nnapi.provider.receipt import write
from ep_nnapi.sessions.cpu import exact_options
from ep_nnapi.tuning.candidates import Measured, Subject, Winner
from ep_nnapi.tuning.search import (
    STAGES,
    Measure,
    Search,
    TimedCall,
    Timing,
    TuningBudget,
    interleaved,
)


@dataclass(frozen=True, slots=True)
class Tuning:
    """Result of `tune`.

    candidates  all that were tried, with their last measurements
    choice      the recommended one, with the reason
    settings    its settings
    seed        of the random inputs; None if inputs were given
    not_stored  given options that settings may not contain, since they name files
    sizes       shapes of the inputs in each of the runs that were measured in turn
    """

    candidates: tuple[Measured, ...]
    choice: Winner
    settings: Settings
    seed: int | None
    not_stored: tuple[str, ...] = ()
    sizes: tuple[Mapping[str, tuple[int, ...]], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Returns plain data for JSON."""
        return {
            "seed": self.seed,
            "candidates": [m.to_json() for m in self.candidates],
            "best": self.choice.best.candidate.name,
            "reason": self.choice.reason,
            "not_stored": list(self.not_stored),
            "sizes": [{name: list(s) for name, s in each.items()} for each in self.sizes],
        }


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How outputs are compared with the CPU provider's.

    inputs     as `tune` takes them; empty: those whose runs are measured
    tolerance  as `tune` takes it
    """

    inputs: Inputs = ()
    tolerance: float | None = None


@checked_arguments
def tune(
    model: ModelSource,
    inputs: Inputs = (),
    *,
    out: str | os.PathLike[str] | None = None,
    accuracy: Inputs = (),
    tolerance: float | None = None,
    seconds: float = 10.0,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    **options: Unpack[OptionKeywords],
) -> Tuning:
    """Measures ways to run `model` and returns the best; writes its settings to `out`.

    model      as for `check`
    inputs     as for `run` (default: random numbers from `seed`); the first ones are run again and
               again. Random ones of symbolic sizes have those of option `sizes`, or growing ones
    accuracy   inputs to judge the accuracy with (default: `inputs`). If they are given and a fast
               candidate is beyond the tolerance, the fewest nodes are left on the CPU for it
    tolerance  relative to an output's spread (default: by its kind, as for `run`)
    seconds    of measurement in all, without making the sessions
    options    for all candidates with NNAPI; what they set is not varied. `intra_op_num_threads` is
               the CPU provider's too
    The CPU provider takes part and is recommended unless NNAPI is faster beyond doubt, or as fast
    with less processor time. Raises ModelError, OptionError and RuntimeFailure.
    """
    if not 0 < seconds < float("inf"):
        raise OptionError(f"seconds is {seconds}; it must be more than 0")
    if out is not None:
        require_writable(os.fspath(out), "output")
    measure = partial(_interleaved, seconds / STAGES, progress)
    judged = Accuracy(accuracy, values.tolerance("tolerance", tolerance))
    found = tuned(model, inputs, seed, judged, measure, options)
    if out is not None:
        found.settings.write(out)
    return found


def tuned(
    model: ModelSource,
    inputs: Inputs,
    seed: int,
    accuracy: Accuracy,
    measure: Measure,
    options: Mapping[str, object],
) -> Tuning:
    """Returns the best of the candidates by the given measurement; arguments as `tune`."""
    chosen, model = parse(options), source(model)
    if contents_in(chosen.fix):
        raise OptionError("settings freeze no input: tune a model that prepare has written with it")
    if contents(model):
        raise ModelError("its clusters are compiled ahead of time; tune the original model")
    with (
        fixed_model(model, chosen) as (static, _),
        TemporaryDirectory(prefix="ep-nnapi-") as folder,
    ):
        cpu = open_session(static, exact_options())
        given = paths_of(accuracy.inputs) != ()
        feeds = varied_feeds(model, cpu, inputs, seed, chosen.sizes)
        judged = feeds
        if given or len(feeds.runs) == 1:
            judged = feeds_of(model, cpu, accuracy.inputs if given else inputs, seed)
        want = [outputs_of(cpu, fed, None) for fed in judged.runs]
        subject = Subject(static, feeds, judged, want, accuracy.tolerance, Path(folder))
        planner_of(chosen)
        of_each = without(options, "fix", "receipt")  # many sessions run; the chosen one has it
        search = Search(subject, of_each, measure, repair=given)
        choice = search.run()
        if chosen.receipt is not None:
            write(search.provider_of(choice.best.candidate), chosen.receipt)
    best = choice.best.candidate
    if chosen.fix and not best.on_cpu:  # for the original model, which the settings are used with
        best = replace(best, options={**best.options, "fix": to_text(chosen.fix)})
    settings = best.settings(_measured(choice.best))
    drawn = seed if paths_of(inputs) == () else None
    lost = tuple(sorted(FILE_OPTIONS & best.options.keys()))
    sizes = tuple({name: a.shape for name, a in fed.items()} for fed in feeds.runs)
    return Tuning(tuple(search.found.values()), choice, settings, drawn, lost, sizes)


def _interleaved(
    seconds: float, progress: ProgressCallback | None, stage: int, runs: Mapping[str, TimedCall]
) -> Mapping[str, Timing]:
    """Measures the runs of a stage; all stages have the same share of the progress."""

    def of_stage(done: int, steps: int) -> None:
        if progress is not None:
            progress(stage * steps + done, STAGES * steps)

    budget = TuningBudget(seconds)
    budget = replace(budget, block=min(budget.block, seconds / 150))  # enough rounds in little time
    return interleaved(runs, budget, progress=of_stage)


def _measured(best: Measured) -> dict[str, object]:
    """Returns the numbers of the best candidate for people who read the settings."""
    timing = best.timing
    if timing is None:
        return {}
    return {
        "candidate": best.candidate.name,
        "milliseconds": timing.seconds * 1e3,
        "interval_95": [timing.low * 1e3, timing.high * 1e3],
        "processor_milliseconds": timing.cpu_seconds * 1e3,
        "runs": timing.runs,
    }
