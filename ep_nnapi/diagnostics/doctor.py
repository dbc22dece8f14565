"""Examination of a device: which operations it computes, how fast, and if rightly: `doctor`."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ep_nnapi.diagnostics.doctor_worker import ANSWERS, FULL, RESULTS
from ep_nnapi.diagnostics.model_sources import ProgressCallback
from ep_nnapi.nnapi.errors import (
    ModelError,
    NnapiError,
    OptionError,
    RuntimeFailure,
    SpecError,
    suggestion,
)
from ep_nnapi.nnapi.files import require_writable
from ep_nnapi.nnapi.profile.device import Profile
from ep_nnapi.nnapi.profile.file import read, write
from ep_nnapi.nnapi.profile.flaws import (
    ANY_TYPES,
    Defect,
    Flaw,
    Kind,
    flaws_of,
    of_operation,
)
from ep_nnapi.nnapi.profile.form import TraitNames
from ep_nnapi.nnapi.profile.seeds import NOT_SAMPLED
from ep_nnapi.nnapi.spec import OPERATIONS
from ep_nnapi.options.parameters import checked_arguments
from ep_nnapi.options.table import DEFAULT_RUNTIME, parse
from ep_nnapi.workers import OUTPUT_FILE, JsonObject, WorkerPool, WorkerServer

SERVER_MODULE = "ep_nnapi.diagnostics.doctor_worker"
_MOST_ENDS = 4
"""Workers that an operation may end before the rest of its trials is taken to do the same."""
_PYTHON = 1
"""Exit code of a worker that an exception of Python ended: an error of this package."""
_A_DAY = 86400.0
"""Seconds for all trials of an operation; each has a limit of its own."""
_ERRORS = {e.__name__: e for e in (ModelError, OptionError, SpecError)}
_FLOAT32 = "TENSOR_FLOAT32"


@dataclass(frozen=True, slots=True)
class ExaminedOperation:
    """What a device makes of one operation.

    trials   number of trials: samples with values
    right    number of those whose results are within NNAPI's tolerance
    seconds  median time of a run of the largest sample, of float32 if there is one, on the device
             and on nnapi-reference; None if none is right
    flaws    by types of operands; ANY_TYPES: whatever these are
    """

    name: str
    trials: int
    right: int
    seconds: tuple[float, float] | None
    flaws: Mapping[Kind, tuple[Flaw, ...]]

    @property
    def worst(self) -> Flaw | None:
        """The worst flaw; None if there is none."""
        each = (flaw for found in self.flaws.values() for flaw in found)
        return max(each, key=lambda flaw: flaw.severity, default=None)

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "operation": self.name,
            "samples": self.trials,
            "right": self.right,
            "microseconds": self.seconds and self.seconds[0] * 1e6,
            "reference_microseconds": self.seconds and self.seconds[1] * 1e6,
            "flaws": [
                {"types": types} | asdict(flaw) | {"traits": sorted(flaw.traits)}
                for (_, types), found in self.flaws.items()
                for flaw in found
            ],
        }


@dataclass(frozen=True, slots=True)
class Examination:
    """What `doctor` found out about a device.

    operations  those that the device supports in at least one form
    declined    names of those that it does not
    untried     names of those of which no sample was tried: the reference computes none
    profile     the device's answers and flaws
    """

    operations: Sequence[ExaminedOperation]
    declined: Sequence[str]
    untried: Sequence[str]
    profile: Profile

    def names(self, defect: Defect) -> list[str]:
        """The operations whose worst flaw this is."""
        worst = ((o.name, o.worst) for o in self.operations)
        return [name for name, flaw in worst if flaw is not None and flaw.defect is defect]

    @property
    def negative(self) -> bool:
        """True if the device has a flaw."""
        return bool(self.profile.flaws)

    def to_json(self) -> dict[str, object]:
        """Plain data for JSON."""
        device = self.profile.device
        return {
            "device": device.name,
            "version": device.version,
            "feature_level": device.feature_level,
            **{defect.value: self.names(defect) for defect in Defect},
            "declined": list(self.declined),
            "untried": list(self.untried),
            "operations": [o.to_json() for o in self.operations],
        }


@checked_arguments
def doctor(
    path: str | os.PathLike[str] | None = None,
    *,
    runtime: str = DEFAULT_RUNTIME,
    device: str | None = None,
    operations: Sequence[str] = (),
    timeout: float = 10.0,
    progress: ProgressCallback | None = None,
) -> Examination:
    """Compares a device with nnapi-reference, and writes its profile with its flaws to `path`.

    runtime     as the provider's option
    device      its name (default: the first that sessions compile for)
    operations  names of NNAPI operations (default: all)
    timeout     seconds after which a compilation or a run hangs
    progress    called with the number of operations examined and of all

    Each operation is examined in a process of its own, which may hang or end. The profile is
    written whole when all is done; an interrupted examination writes nothing. Raises OptionError
    (no such device or operation, `path` cannot be written), RuntimeFailure and OSError (no space
    for the results of workers).
    """
    names = _chosen(operations)
    if not 0 < timeout <= _A_DAY:
        raise OptionError(f"timeout is {timeout:g}; it must be above 0 and at most {_A_DAY:g}")
    if path is not None:
        require_writable(os.fspath(path), "output")
    task = {"runtime": parse({"runtime": runtime}).runtime, "device": device, "timeout": timeout}
    with TemporaryDirectory() as folder, WorkerPool(SERVER_MODULE) as pool, pool.server() as server:
        examiner = _Doctor(server, Path(folder), task)
        about = examiner.about_device()
        found = []
        for number, name in enumerate(names):
            if progress is not None:
                progress(number, len(names))
            found.append(examiner.examined(name))
    taken = [o for o in found if o.trials or o.flaws]
    groups = {group: c for answers in examiner.answers for group, c in answers.groups.items()}
    flaws = {kind: each for o in taken for kind, each in o.flaws.items()}
    profile = replace(about, groups=groups, flaws=flaws)
    if path is not None:
        write(profile, Path(path))
    some = {operation for (operation, *_), answer in groups.items() if answer is not None}
    left = [o.name for o in found if o not in taken]
    declined, untried = ([n for n in left if (n in some) is yes] for yes in (False, True))
    return Examination(taken, declined, untried, profile)


def _chosen(operations: Sequence[str]) -> list[str]:
    known = [o.name for o in OPERATIONS if o.name not in NOT_SAMPLED]
    for name in operations:
        if name not in known:
            why = f"operation {name!r} is none that is sampled{suggestion(name, known)}"
            raise OptionError(why)
    return [name for name in known if not operations or name in operations]


@dataclass(slots=True)
class _Trials:
    """Results of the trials of one operation.

    listed   all lists of types that the device supports
    answers  by types, in the order of the trials
    ends     flaws of the trials that ended their worker
    last     number of the last trial with a result
    alone    number up to which each trial is a model of its own
    begun    trials that a worker began last, and has not ended
    """

    listed: list[str] = field(default_factory=list)
    answers: dict[str, list[tuple[TraitNames, Flaw | None]]] = field(default_factory=dict)
    ends: list[Flaw] = field(default_factory=list)
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    last: int = -1
    alone: int = 0
    begun: list[JsonObject] = field(default_factory=list)
    done: bool = False

    def add(self, line: JsonObject) -> None:
        """Adds the result that a worker has printed as one line."""
        if "error" in line:
            raise _ERRORS.get(line["kind"], NnapiError)(line["error"])
        if "types" in line and "trial" not in line:
            self.listed = line["types"]
        elif "begin" in line:
            self.begun = line["begin"]
        elif "trial" in line:
            given = line["flaw"]
            flaw = given and Flaw(frozenset(), Defect(given.pop("defect")), **given)
            self.answer(line, flaw)
            if line["seconds"]:
                self.seconds[line["types"]] = tuple(line["seconds"])
        else:
            self.done = True

    def answer(self, trial: JsonObject, flaw: Flaw | None) -> None:
        """Takes the result of a trial."""
        traits = frozenset(trial["traits"])
        self.answers.setdefault(trial["types"], []).append((traits, flaw))
        self.last = trial["trial"]
        self.begun = [begun for begun in self.begun if begun["trial"] > self.last]
        if flaw is not None and flaw.defect in (Defect.HANGS, Defect.DIES):
            self.ends.append(flaw)

    def hopeless(self) -> list[str]:
        """The types of which a trial ended the worker before one was right."""
        return [
            types
            for types, answers in self.answers.items()
            if any(flaw in self.ends for _, flaw in answers if flaw is not None)
            and all(flaw is not None for _, flaw in answers)
        ]

    def result(self, name: str) -> ExaminedOperation:
        """What all trials say together; those that were not made would have ended the worker."""
        flaws = {types: flaws_of(answers) for types, answers in self.answers.items()}
        right = [flaw for answers in self.answers.values() for _, flaw in answers].count(None)
        if not self.done:
            last = replace(self.ends[-1], detail=f"{self.ends[-1].detail}; the rest was not tried")
            left = [t for t in self.listed if t not in self.answers]
            flaws |= dict.fromkeys(left if self.listed else [ANY_TYPES], (last,))
        times = sorted(self.seconds.items(), key=lambda item: not item[0].startswith(_FLOAT32))
        return ExaminedOperation(
            name,
            sum(map(len, self.answers.values())),
            right,
            times[0][1] if times else None,
            of_operation(name, flaws),
        )


@dataclass(frozen=True, slots=True)
class _Doctor:
    """Examines operations in workers, one after the other.

    answers   the profiles of the operations that were asked about
    """

    server: WorkerServer
    folder: Path
    task: JsonObject
    answers: list[Profile] = field(default_factory=list)

    def about_device(self) -> Profile:
        """The device's profile without groups; raises what the first worker raises."""
        found = _Trials()
        flaw = self._run(found, None)
        if flaw is not None:
            what = "does not answer" if flaw.defect is Defect.HANGS else "ends its process"
            raise RuntimeFailure("getDevice", "ANEURALNETWORKS_OP_FAILED", f"the runtime {what}")
        return read(self.folder / ANSWERS)

    def examined(self, name: str) -> ExaminedOperation:
        """What the device makes of an operation."""
        found = _Trials()
        while not found.done and len(found.ends) < _MOST_ENDS:
            (self.folder / ANSWERS).unlink(missing_ok=True)
            flaw = self._run(found, name)
            if flaw is None:
                continue
            if not found.begun:  # it was asked, not given a trial
                found.ends.append(replace(flaw, detail=f"{flaw.detail}, asked about it"))
                break
            found.answer(found.begun[0], flaw)
        if (self.folder / ANSWERS).exists():
            self.answers.append(read(self.folder / ANSWERS))
        return found.result(name)

    def _run(self, found: _Trials, operation: str | None) -> Flaw | None:
        """Runs a worker; returns the flaw that ended it, None if it ended by itself."""
        more = {"operation": operation, "start": found.last + 1, "skip": found.hopeless()}
        more["alone"], found.begun = found.alone, []
        request = {"folder": str(self.folder), "seconds": _A_DAY, "task": self.task | more}
        results = self.folder / RESULTS
        results.unlink(missing_ok=True)
        before = len(found.ends)
        code = self.server.exchange(request)
        if code == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(results))
        if code == _PYTHON:
            said = (self.folder / OUTPUT_FILE).read_text(errors="replace").strip()
            raise NnapiError(f"the worker process failed: {said.rpartition(chr(10))[2]}")
        for line in results.read_text().splitlines() if results.exists() else ():
            found.add(json.loads(line))
        if len(found.begun) > 1:  # one of them, which is found when each is alone
            found.alone = found.begun[-1]["trial"] + 1
        if found.done or len(found.ends) > before or len(found.begun) > 1:
            return None
        if code in (None, -signal.SIGALRM):
            return Flaw(
                frozenset(), Defect.HANGS, detail=f"no end after {self.task['timeout']:g} s"
            )
        why = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return Flaw(frozenset(), Defect.DIES, detail=why)
