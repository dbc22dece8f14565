"""Running a model on NNAPI and on the CPU provider, and comparing the outputs: `run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, Unpack

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
from ep_nnapi.diagnostics.model_sources import Inputs, Loadable, ModelSource, paths_of
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
from ep_nnapi.nnapi.array import Array
from ep_nnapi.nnapi.errors import RuntimeFailure
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.options.fixed import sets_of
from ep_nnapi.options.table import HOST, OptionKeywords, Options, parse
from ep_nnapi.options.values import to_text
from ep_nnapi.provider.provider import Provider
from ep_nnapi.provider.receipt import fallbacks_of
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
    failures      the last device failures in runs, after which a fallback computed the outputs
    fallbacks     what computed runs of clusters in place of their devices, and why
    device_times  what the devices measured themselves
    recognised    index of the largest output of each row, if the rows have labels
    labels        class labels of the rows, if given
    against       what computed the expected outputs; None if there are none
    latency       latency on both providers with the first inputs, if requested
    latencies     the same for each set of option `sizes`
    """

    report: Report
    outputs: tuple[Mapping[str, Array], ...]
    verdict: Verdict
    on_reference: tuple[Difference, ...]
    failures: tuple[RuntimeFailure, ...]
    fallbacks: tuple[FallbackRuns, ...]
    device_times: tuple[DeviceTime, ...]
    recognised: Array | None
    labels: Array | None
    against: str | None = CPU_NAME
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


_Run: TypeAlias = tuple[
    RunResult, onnxruntime.InferenceSession, onnxruntime.InferenceSession | None, Feeds
]
"""A result, the sessions on NNAPI and on the CPU provider, and the inputs."""


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
    with fixed_model(model, chosen) as (static, rest):
        run_it = _run_epcontext if contents(static) else _run_both
        result, nnapi, cpu, feeds = run_it(static, inputs, seed, tolerance, rest)
        if profile is not None:
            record_trace(Path(profile), static, feeds, rest)
    report = replace(with_sources(result.report, model), digest=digest_of(model))
    result = replace(result, report=report)
    if not latency:
        return result
    varied = rest.sizes and paths_of(inputs) == ()
    named = [to_text(tuple(s.items())) for s in sets_of(rest.sizes)] if varied else [""]
    runs = zip(named, feeds.runs, strict=False)
    found = {name: _latency(nnapi, cpu, fed) for name, fed in runs}
    return replace(result, latency=found[named[0]], latencies=found if varied else {})


def _latency(
    nnapi: onnxruntime.InferenceSession,
    cpu: onnxruntime.InferenceSession | None,
    fed: Mapping[str, Array],
) -> Latency:
    on_cpu = None if cpu is None else measured(partial(outputs_of, cpu, fed, None))
    return Latency(measured(partial(outputs_of, nnapi, fed, None)), on_cpu)


def _run_both(
    model: str | bytes,
    inputs: Inputs,
    seed: int,
    tolerance: float | None,
    options: Options,
) -> _Run:
    cpu = open_session(source(model), exact_options())
    feeds = feeds_of(model, cpu, inputs, seed, sizes=options.sizes)
    want = [outputs_of(cpu, f, None) for f in feeds.runs]
    provider, session = nnapi_session(model, options)
    got = [outputs_of(session, f, provider) for f in feeds.runs]
    check_excluded(options, provider.report)
    verdict = compared(model, feeds.runs, (got, want), tolerance, half=options.half)
    result = _result(provider, got, feeds, verdict)
    if verdict.less_accurate is LessAccurate.NONE or _on_reference(result.report, options):
        return result, session, cpu, feeds
    again = run_on_nnapi(model, feeds, on_reference_device(options))[1]
    traits = traits_of(model, half=options.half)
    result = replace(result, on_reference=differences_of(again, want, traits, tolerance))
    return result, session, cpu, feeds


def compared(
    model: Loadable,
    feeds: Sequence[Mapping[str, Array]],
    outputs: tuple[Runs, Runs],
    tolerance: float | None,
    *,
    half: bool = False,
) -> Verdict:
    """Returns the verdict on outputs of NNAPI and of the CPU provider for the same inputs.

    sides  the outputs of NNAPI and of the CPU provider
    half   True if NNAPI may compute float32 in float16
    """
    traits = traits_of(model, half=half)
    found = differences_of(*outputs, traits, tolerance)
    verdict = verdict_of(*outputs, found, lambda: reference_outputs(model, feeds))
    if verdict.less_accurate is LessAccurate.CPU and traits.quantized and saturates():
        return replace(verdict, note=_SATURATES)
    return verdict


def _run_epcontext(
    model: str | bytes,
    inputs: Inputs,
    seed: int,
    tolerance: float | None,
    options: Options,
) -> _Run:
    """Compares a device with nnapi-reference, whose outputs count as correct."""
    provider, session = nnapi_session(model, options)
    feeds = feeds_of(model, session, inputs, seed, sizes=options.sizes)
    got = [outputs_of(session, f, provider) for f in feeds.runs]
    result = replace(_result(provider, got, feeds, Verdict()), against=None)
    if _on_reference(result.report, options):
        return result, session, None, feeds
    want = run_on_nnapi(model, feeds, on_reference_device(options))[1]
    found = differences_of(got, want, OutputTraits(half=options.half), tolerance)
    verdict = verdict_of(got, want, found, lambda: ReferenceOutputs(tuple(want), REFERENCE_DEVICE))
    return replace(result, verdict=verdict, against=REFERENCE_DEVICE), session, None, feeds


def _result(
    provider: Provider,
    got: Sequence[Mapping[str, Array]],
    feeds: Feeds,
    verdict: Verdict,
) -> RunResult:
    labels = feeds.labels
    recognised = None if labels is None else _recognised(got, len(labels))
    return RunResult(
        provider.report,
        tuple(got),
        verdict,
        (),
        provider.failures,
        fallbacks_of(provider),
        device_times(provider),
        recognised,
        labels,
    )


def _on_reference(report: Report, options: Options) -> bool:
    """Returns True if all clusters ran on the host runtime's nnapi-reference."""
    on_host = options.runtime == HOST
    return {c.device for c in report.clusters} <= ({REFERENCE_DEVICE} if on_host else set())


def on_reference_device(options: Options) -> Options:
    """Returns the options for the host runtime's nnapi-reference in place of their device.

    The receipt is that of their device's session.
    """
    return replace(options, runtime=HOST, device=REFERENCE_DEVICE, receipt=None)


def _recognised(outputs: Sequence[Mapping[str, Array]], count: int) -> Array | None:
    """Returns the predicted class of each row: the argmax of the first output."""
    scores = np.concatenate([np.atleast_2d(next(iter(o.values()))) for o in outputs])
    return scores.reshape(len(scores), -1).argmax(axis=1) if len(scores) == count else None
