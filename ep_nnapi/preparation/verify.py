"""Comparison of a prepared model with recorded outputs of the original, in separate processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
from onnxruntime import GraphOptimizationLevel

from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.output_traits import TOLERANCES, OutputKind, traits_of
from ep_nnapi.diagnostics.run_and_compare import compared, on_reference_device
from ep_nnapi.diagnostics.session_runs import feeds_of, open_session, outputs_of, run_on_nnapi
from ep_nnapi.diagnostics.verdict import Verdict, differences_of
from ep_nnapi.graph.onnx_io import mentions
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import ModelError
from ep_nnapi.options.fixed import Fix, FixedSizes, contents_in
from ep_nnapi.options.table import Options
from ep_nnapi.preparation.job import Verification
from ep_nnapi.sessions.cpu import exact_options, saturates

_SEED = 0
_PRODUCTS = (b"QLinear", b"QGemm", b"MatMulInteger", b"ConvInteger")


def record(
    model: Path,
    how: Verification,
    fixed: Fix,
    to: Path,
    exposed: Path | None = None,
    sizes: FixedSizes = (),
) -> float | None:
    """Writes inputs and the original's outputs on the CPU provider to `to` (.npz).

    fixed    static shapes of inputs in the prepared model, and contents of those that it lacks
    exposed  an equal model with more outputs, to record those as well
    sizes    in use: random inputs have each set of them
    Returns the tolerance to apply; None for the default of each output's kind. The default for
    quantized models is raised to twice the difference between ONNX Runtime's own fused and
    unfused results, if that is larger.
    """
    options = exact_options()
    # spinning threads would take CPU time from other workers
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = open_session(str(model), options)
    feeds = feeds_of(str(model), session, how.inputs, _SEED, fixed, sizes=sizes, may_end=True)
    outputs = [outputs_of(session, fed, None) for fed in feeds.runs]
    del session  # and its copy of the weights
    if exposed is not None:
        model = exposed
        session = open_session(str(model), options)
        more = (outputs_of(session, fed, None) for fed in feeds.runs)
        outputs = [{**a, **b} for a, b in zip(more, outputs, strict=True)]
        del session
    tolerance = how.tolerance
    if tolerance is None and traits_of(str(model)).quantized:
        own = _difference_of_levels(model, feeds, outputs)
        tolerance = own if own > TOLERANCES[OutputKind.QUANTIZED] else None
    about = {
        "model": str(model),
        "tolerance": tolerance,
        "frozen": [*contents_in(fixed)],
        "feeds": [list(fed) for fed in feeds.runs],
        "outputs": [list(found) for found in outputs],
    }
    arrays = (array for run in (*feeds.runs, *outputs) for array in run.values())
    np.savez(to, np.array(json.dumps(about)), *arrays, allow_pickle=False)
    return tolerance


def _difference_of_levels(model: Path, feeds: Feeds, fused: Sequence[Mapping[str, Array]]) -> float:
    """Returns twice the largest relative difference between unfused and fused results on the CPU.

    Returns 0 where it is not meaningful: ONNX Runtime's unfused integer kernels saturate on some
    processors.
    """
    if saturates() and mentions(model, *_PRODUCTS):
        return 0.0
    options = exact_options()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = open_session(str(model), options)
        unfused = [outputs_of(session, fed, None) for fed in feeds.runs]
    except ModelError:
        return 0.0  # some operators have a CPU kernel only after fusion
    apart = max((d.relative for d in differences_of(unfused, fused)), default=0.0)
    return 2 * apart if isfinite(apart) else 0.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `record` has written: inputs and outputs of each run, the model, the tolerance.

    frozen  names of the inputs that the prepared model lacks
    """

    feeds: tuple[Mapping[str, Array], ...]
    outputs: tuple[Mapping[str, Array], ...]
    model: str
    tolerance: float | None
    frozen: tuple[str, ...] = ()

    @property
    def open(self) -> tuple[Mapping[str, Array], ...]:
        """The inputs of the prepared model."""
        return tuple({n: a for n, a in f.items() if n not in self.frozen} for f in self.feeds)


def read_recorded(path: Path) -> Recorded:
    """Returns the contents of a file that `record` has written."""
    with np.load(path, allow_pickle=False) as found:
        arrays = (found[name] for name in found.files)  # in the order in which they were written
        about = json.loads(str(next(arrays)))
        feeds, outputs = (
            tuple({name: next(arrays) for name in names} for names in about[side])
            for side in ("feeds", "outputs")
        )
    return Recorded(feeds, outputs, about["model"], about["tolerance"], tuple(about["frozen"]))


def compare(prepared: Path, recorded: Path, options: Options) -> Verdict:
    """Runs the prepared model on nnapi-reference and judges it against the recorded outputs.

    Raises ModelError if it cannot be loaded, or if its inputs or outputs are not the original's.
    """
    known = read_recorded(recorded)
    got = run_on_nnapi(str(prepared), Feeds(known.open), on_reference_device(options))[1]
    if any(g.keys() != w.keys() for g, w in zip(got, known.outputs, strict=True)):
        raise ModelError("the prepared model's outputs have other names than the original's")
    outputs = got, known.outputs
    return compared(known.model, known.feeds, outputs, known.tolerance, half=options.half)
