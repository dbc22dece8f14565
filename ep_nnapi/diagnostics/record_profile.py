"""Recording of a device's answers, to be used on another machine: `record_profile`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnxruntime

from ep_nnapi.diagnostics.calibrate import Progress, measure_costs
from ep_nnapi.diagnostics.check import partitioned_at, source
from ep_nnapi.diagnostics.model_sources import ModelSource
from ep_nnapi.nnapi.profile.answers import Profile
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.record import RecordingRuntime, record
from ep_nnapi.options.table import DEFAULT_RUNTIME, Options, parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.provider.devices import choose_device, runtime_of

_FLAGS = (NnapiFlag.NONE, NnapiFlag.USE_FP16, NnapiFlag.USE_NCHW)
"""Flags for which the operations of given models are recorded."""


def record_profile(
    path: str | os.PathLike[str],
    models: Sequence[ModelSource] = (),
    *,
    runtime: str = DEFAULT_RUNTIME,
    device: str | None = None,
    times: bool = False,
    progress: Progress | None = None,
) -> Profile:
    """Asks a device which operations it supports, and writes a device profile to `path`.

    models    models whose very operations are recorded too, so that their answers are exact
    runtime   as the option `runtime`
    device    as the option `device` (default: the runtime's choice)
    times     True to also measure the device and the CPU provider beside it, as `calibrate` does;
              sessions with the profile estimate by these times
    progress  called with the number of measured sessions and of all
    Takes a minute or so. Without `times` the device is only asked: it compiles the models, and runs
    nothing. Raises OptionError (no such device, nothing that can be measured, `path` cannot be
    written), ModelError and RuntimeFailure.
    """
    options = parse({"runtime": runtime, "device": device})
    opened = runtime_of(options)
    chosen = choose_device(opened, options.device, NnapiFlag.NONE)
    recording = RecordingRuntime(opened)
    for model in models:
        _record_operations(model, replace(options, device=chosen.name), recording)
    measured = measure_costs(chosen.name, options.runtime, progress).to_json() if times else None
    profile = replace(record(opened, chosen, recording.exact), calibration=measured)
    write(profile, Path(path))
    return profile


def _record_operations(model: ModelSource, options: Options, runtime: RecordingRuntime) -> None:
    """Partitions the model with each flag, so that the device is asked about its operations."""
    found = source(model)
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    for flags in _FLAGS:
        partitioned_at(found, replace(options, flags=flags), level, runtime)
