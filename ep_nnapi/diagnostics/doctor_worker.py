"""Workers of `doctor`: each examines one operation of a device, and may end at any of its trials.

The file RESULTS gets a line before the device gets trials, and one for each of their results.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

from ep_nnapi.nnapi.codes import ResultCode, result_code
from ep_nnapi.nnapi.errors import NnapiError, RuntimeFailure
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.profile.device import Profile
from ep_nnapi.nnapi.profile.examine import (
    Examiner,
    RuntimeDevice,
    Trial,
    TrialResult,
    batches,
    trials,
)
from ep_nnapi.nnapi.profile.file import write
from ep_nnapi.nnapi.profile.flaws import Defect
from ep_nnapi.nnapi.profile.record import record_operation
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.options.table import parse
from ep_nnapi.options.target import NnapiFlag
from ep_nnapi.provider.devices import choose_device, fast_devices, runtime_of
from ep_nnapi.workers import JsonObject, serve, set_up_worker

RESULTS, ANSWERS = "results.jsonl", "answers.json"
"""Files of a worker in its folder: a line for each trial, and the profile of the operation."""
FULL = 87
"""Exit code of a worker that cannot write its results."""

_PATIENCE = 3.0
"""Timeouts after which a trial ends its worker: a compilation and a run keep one each."""
_ASKING = 60.0
"""Seconds for all questions about an operation, and for this process to make them up; or ..."""
_QUESTIONS = 6
"""... so many timeouts if that is more."""
_LATE = (ResultCode.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_PERSISTENT)


def main() -> None:
    """Serves requests until the end of standard input."""
    serve(_work)


def _work(request: JsonObject) -> None:
    """Serves one request: examines an operation, or without one says which device there is."""
    folder, task = Path(request["folder"]), request["task"]
    set_up_worker(folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends a call that does not return
    try:
        with open(folder / RESULTS, "w", buffering=1) as lines:

            def tell(line: JsonObject) -> None:
                lines.write(json.dumps(line) + "\n")

            try:
                _serve(task, folder, tell)
            except NnapiError as error:
                tell({"error": str(error), "kind": type(error).__name__})
    except OSError:
        os._exit(FULL)


def _serve(task: JsonObject, folder: Path, tell: Callable[[JsonObject], None]) -> None:
    signal.setitimer(signal.ITIMER_REAL, max(_ASKING, _QUESTIONS * task["timeout"]))
    options = parse({"runtime": task["runtime"], "device": task["device"]})
    runtime = runtime_of(options)
    chosen = choose_device(runtime, options.device, NnapiFlag.NONE)
    device = (*fast_devices(runtime, chosen, options), chosen)[0]
    if task["operation"] is None:
        write(Profile(device, runtime.feature_level, {}, {}), folder / ANSWERS)
        tell({"done": True})
    else:
        _examine((runtime, device), task, folder, tell)


def _examine(
    placed: RuntimeDevice, task: JsonObject, folder: Path, tell: Callable[[JsonObject], None]
) -> None:
    """Examines an operation from a trial on, but for some lists of types, until a trial hangs."""
    (runtime, device), spec = placed, BY_NAME[task["operation"]]
    groups, supported = record_operation(runtime, device, spec)
    write(Profile(device, runtime.feature_level, groups, {}), folder / ANSWERS)
    listed = trials(spec, supported, runtime.feature_level)
    tell({"types": list(dict.fromkeys(trial.types for trial in listed))})
    host = HostRuntime()
    examiner = Examiner(placed, (host, host.devices()[0]), task["timeout"])
    numbered = (
        (number, trial)
        for number, trial in enumerate(listed)
        if number >= task["start"] and trial.types not in task["skip"]
    )
    for batch in batches(numbered, task["alone"]):
        if not _tried(examiner, batch, tell):
            return  # a thread of this process may still run in the driver
    tell({"done": True})


def _tried(
    examiner: Examiner, batch: Sequence[tuple[int, Trial]], tell: Callable[[JsonObject], None]
) -> bool:
    """Tries trials as one model, and if that fails each alone; False if one hangs or dies."""
    signal.setitimer(signal.ITIMER_REAL, 0)  # the reference takes what it takes
    known = [(n, k) for n, trial in batch if (k := examiner.known(trial)) is not None]
    about = [
        {"trial": n, "types": k.trial.types, "traits": sorted(k.trial.traits)} for n, k in known
    ]
    if not known:
        return True
    tell({"begin": about})
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE * examiner.timeout)
    try:
        results = examiner.examine([k for _, k in known])
    except RuntimeFailure as failure:
        defect = _defect(failure)
        if len(known) == 1:
            tell(about[0] | {"flaw": {"defect": defect, "detail": str(failure)}, "seconds": None})
        ends = defect in (Defect.HANGS, Defect.DIES)
        alone = [[(n, k.trial)] for n, k in known] if len(known) > 1 and not ends else []
        return not ends and all(_tried(examiner, each, tell) for each in alone)
    for each, one in zip(results, about, strict=True):
        tell(one | _told(each))
    return True


def _told(found: TrialResult) -> JsonObject:
    flaw: JsonObject | None = None
    if found.error.wrong:
        error, allowed = found.error
        known = error if isfinite(error) else None
        flaw = {"defect": Defect.WRONG, "error": known, "allowed": allowed}
    return {"flaw": flaw, "seconds": found.seconds}


def _defect(failure: RuntimeFailure) -> Defect:
    code = result_code(failure)
    if code in _LATE:
        return Defect.HANGS
    return Defect.DIES if code is ResultCode.DEAD_OBJECT else Defect.FAILS
