"""Running a model on NNAPI and on the CPU provider, and comparing the outputs: `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import onnxruntime

from ep_nnapi.diagnostics.check import check_excluded, with_sources
from ep_nnapi.diagnostics.fixed_model import fixed_model
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.diagnostics.measured_times import (
    DeviceTime,
    Latency,
    device_times,
    measured,
    record_trace,
)
from ep_nnapi.diagnostics.model_sources import Inputs, ModelSource, paths_of
from ep_nnapi.diagnostics.output_traits import OutputTraits, traits_of
from ep_nnapi.diagnostics.reference_run import reference_outputs
from ep_nnapi.diagnostics.session_runs import (
    feeds_of,
    nnapi_session,
    open_session,
    outputs_of,
    run_on_nnapi,
    source,
)
from ep_nnapi.diagnostics.verdict import (
    Difference,
    LessAccurate,
    ReferenceOutputs,
    Runs,
    Verdict,
    differences_of,
    verdict_of,
)
from ep_nnapi.graph.onnx_io import Loadable
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.options import values
from ep_nnapi.options.fixed import sets_of
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import HOST, OptionKeywords, Options, parse
from ep_nnapi.options.values import to_text
from ep_nnapi.provider.receipt import conclude, fallbacks_of
from ep_nnapi.report.report import FallbackRuns, Report
from ep_nnapi.sessions.cpu import exact_options, saturates

CPU_NAME = "the CPU"


_SATURATES = (
    "On this processor, which lacks VNNI, the CPU provider's sums of uint8 x int8 products "
    "saturate in 16 bits where session.x64quantprecision does not reach."
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of `run`.

    report        device placement
    outputs       one dictionary for each run
    verdict       differences from the expected outputs, and which provider is less accurate
    on_reference  differences of nnapi-reference, if another device exceeds the tolerance
    against       what computed the expected outputs; None if there are none
    failures      the last device failures in runs, after which a fallback computed the outputs
    fallbacks     what computed runs of clusters in place of their devices, and why
    device_times  what the devices measured themselves
    recognised    index of the largest output of each row, if the rows have labels
    labels        class labels of the rows, if given
    latency       latency on both providers with the first inputs, if requested
    latencies     the same for each set of option `sizes`
    """

    report: Report
    outputs: tuple[Mapping[str, Array], ...]
    verdict: Verdict
    on_reference: tuple[Difference, ...]
    against: str | None
    failures: tuple[RuntimeFailure, ...]
    fallbacks: tuple[FallbackRuns, ...]
    device_times: tuple[DeviceTime, ...]
    recognised: Array | None
    labels: Array | None
    latency: Latency | None = None
    latencies: Mapping[str, Latency] = field(default_factory=dict)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """One difference for each output, over all runs; empty without expected outputs."""
        return self.verdict.differences

    @property
    def fallback_runs(self) -> int:
        """The number of runs of clusters that a fallback computed."""
        return sum(fallback.runs for fallback in self.fallbacks)

    @property
    def worst(self) -> float:
        """The largest relative difference."""
        return self.verdict.worst


@checked_arguments
def run(
    model: ModelSource,
    inputs: Inputs = (),
    *,
    seed: int = 0,
    tolerance: float | None = None,
    latency: bool = False,
    profile: str | Path | None = None,
    **options: Unpack[OptionKeywords],
) -> RunResult:
    """Runs `model` on NNAPI and on the CPU provider and compares the outputs.

    model      as for `check`
    inputs     paths as for `read_feeds`; or an array, a dictionary from names to arrays, or
               arrays in the order of the model's inputs (default: random numbers)
    seed       of random inputs
    tolerance  relative to an output's spread (default: by its kind). Beyond it, a more exact
               computation determines which provider is less accurate, and nnapi-reference whether
               the cause is a device's arithmetic or a defect of the lowering
    latency    also measure the latency on both providers, after the compared runs
    profile    file for ONNX Runtime's profile of another session, which runs the same inputs; it
               has an event for each NNAPI operation
    The CPU provider cannot run clusters compiled ahead of time. Other devices are then compared
    with nnapi-reference, and nnapi-reference with nothing.
    Raises ModelError, OptionError and RuntimeFailure (a device failed without fallback).
    """
    chosen, model = parse(options), source(model)
    tolerance = values.tolerance("tolerance", tolerance)
    with fixed_model(model, chosen) as (static, rest):
        cpu = None if contents(static) else open_session(static, exact_options())
        provider, nnapi = nnapi_session(static, rest)
        feeds = feeds_of(static, cpu or nnapi, inputs, seed, sizes=rest.sizes)
        want = [outputs_of(cpu, f, None) for f in feeds.runs] if cpu else None
        got = [outputs_of(nnapi, f, provider) for f in feeds.runs]
        if cpu is not None:
            check_excluded(rest, provider.report)
        result = RunResult(
            replace(with_sources(provider.report, model), digest=digest_of(model)),
            tuple(got),
            *_judged(static, feeds, (got, want), tolerance, rest, provider.report),
            provider.failures,
            fallbacks_of(provider),
            device_times(provider),
            None if feeds.labels is None else _recognised(got, len(feeds.labels)),
            feeds.labels,
        )
        if profile is not None:
            record_trace(Path(profile), static, feeds, rest)
    if latency:
        varied = rest.sizes and paths_of(inputs) == ()
        named = [to_text(tuple(s.items())) for s in sets_of(rest.sizes)] if varied else [""]
        runs = zip(named, feeds.runs, strict=False)
        found = {name: _latency(nnapi, cpu, fed) for name, fed in runs}
        result = replace(result, latency=found[named[0]], latencies=found if varied else {})
    conclude(provider)
    return result


def _latency(
    nnapi: onnxruntime.InferenceSession,
    cpu: onnxruntime.InferenceSession | None,
    fed: Mapping[str, Array],
) -> Latency:
    on_cpu = None if cpu is None else measured(partial(outputs_of, cpu, fed, None))
    return Latency(measured(partial(outputs_of, nnapi, fed, None)), on_cpu)


def _judged(
    model: str | bytes,
    feeds: Feeds,
    outputs: tuple[Runs, Runs | None],
    tolerance: float | None,
    options: Options,
    report: Report,
) -> tuple[Verdict, tuple[Difference, ...], str | None]:
    """Returns `verdict`, `on_reference` and `against` of a result.

    Without outputs of the CPU provider those of nnapi-reference count as correct.
    """
    got, want = outputs
    on_host = options.runtime == HOST
    devices = {c.device for c in report.clusters}
    is_reference = devices <= ({REFERENCE_DEVICE} if on_host else set())

    def on_reference() -> Runs:
        return run_on_nnapi(model, feeds, on_reference_device(options))[1]

    if want is None:
        if is_reference:
            return Verdict(), (), None
        correct = on_reference()
        found = differences_of(got, correct, OutputTraits(half=options.half), tolerance)
        exact = ReferenceOutputs(correct, REFERENCE_DEVICE)
        return verdict_of(got, correct, found, lambda: exact), (), REFERENCE_DEVICE
    verdict = compared(model, feeds.runs, (got, want), tolerance, half=options.half)
    if verdict.less_accurate is LessAccurate.NONE or is_reference:
        return verdict, (), CPU_NAME
    traits = traits_of(model, half=options.half)
    return verdict, differences_of(on_reference(), want, traits, tolerance), CPU_NAME


def compared(
    model: Loadable,
    feeds: Sequence[Mapping[str, Array]],
    outputs: tuple[Runs, Runs],
    tolerance: float | None,
    *,
    half: bool = False,
) -> Verdict:
    """Returns the verdict on outputs of NNAPI and of the CPU provider for the same inputs.

    half   True if NNAPI may compute float32 in float16
    """
    traits = traits_of(model, half=half)
    found = differences_of(*outputs, traits, tolerance)
    verdict = verdict_of(*outputs, found, lambda: reference_outputs(model, feeds))
    if verdict.less_accurate is LessAccurate.CPU and traits.quantized and saturates():
        return replace(verdict, note=_SATURATES)
    return verdict


def on_reference_device(options: Options) -> Options:
    """Returns the options for the host runtime's nnapi-reference in place of their device.

    The receipt is that of their device's session.
    """
    return replace(options, runtime=HOST, device=REFERENCE_DEVICE, receipt=None)


def _recognised(outputs: Sequence[Mapping[str, Array]], count: int) -> Array | None:
    """Returns the predicted class of each row: the argmax of the first output."""
    scores = np.concatenate([np.atleast_2d(next(iter(o.values()))) for o in outputs])
    return scores.reshape(len(scores), -1).argmax(axis=1) if len(scores) == count else None
