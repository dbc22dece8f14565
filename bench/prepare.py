"""Cost of preparing ResNet-50, beside ONNX Runtime's own conversion: seconds and peak memory.

Each is one command in a process of its own, its children included. All take turns, so that what
else the machine does meets all of them, and the smallest of each figure counts. Bytecode is cached,
as it is where packages are installed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

RUNS = 5
MODULE = (sys.executable, "-m")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that passed, seconds of CPUs, and the largest process's megabytes."""

    wall: float
    cpu: float
    memory: float

    def within(self, other: Cost) -> Cost:
        """The smaller of each."""
        smallest = (min(self.wall, other.wall), min(self.cpu, other.cpu))
        return Cost(*smallest, min(self.memory, other.memory))


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of a command's seconds and memory, as multiples of ONNX Runtime's."""

    time: float
    memory: float


LIMITS = {"--no-verify": Limit(2, 2), "verified": Limit(4, 2)}


def cost(*command: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Seconds and memory of one command; its output is discarded."""
    start = perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    given = os.environ if environment is None else environment
    child = os.posix_spawn(sys.executable, command, given, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    seconds = usage.ru_utime + usage.ru_stime
    return Cost(perf_counter() - start, seconds, usage.ru_maxrss / 1024)


def commands(source: Path, out: Path) -> dict[str, tuple[str, ...]]:
    """Each command; `out` is new each time, or there would be nothing to do."""
    tool = (*MODULE, "onnxruntime.tools.convert_onnx_models_to_ort")
    prepare = (*MODULE, "ep_nnapi", "prepare", str(source / "resnet50.onnx"), "-o")
    theirs = ("--optimization_style", "Fixed", "--output_dir", str(out / "theirs"), str(source))
    return {
        "onnxruntime": (*tool, *theirs),
        "--no-verify": (*prepare, str(out / "quick"), "--no-verify"),
        "verified": (*prepare, str(out / "verified")),
    }


def main() -> None:
    """Prints a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in")
        # in another process: a child's peak begins with its parent's
        cost(*MODULE, "models.zoo", str(source), "resnet50")
        cached = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        cached["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
        best: dict[str, Cost] = {}
        for run in range(RUNS + 1):  # the first only fills the caches
            for name, command in commands(source, Path(folder, str(run))).items():
                found = cost(*command, environment=cached)
                best[name] = found if run < 2 else best[name].within(found)
        theirs = best.pop("onnxruntime")
        row = f"{theirs.wall:6.2f} s {theirs.cpu:6.2f} CPU s {theirs.memory:6.0f} MB"
        print(f"{'onnxruntime':12} {row}")
        for name, limit in LIMITS.items():
            print(f"{name:12} {_row(best[name], theirs, limit)}")


def _row(ours: Cost, theirs: Cost, limit: Limit) -> str:
    wall, cpu, memory = (
        ours.wall / theirs.wall,
        ours.cpu / theirs.cpu,
        ours.memory / theirs.memory,
    )
    return (
        f"{ours.wall:6.2f} s {ours.cpu:6.2f} CPU s {ours.memory:6.0f} MB: "
        f"{wall:.2f}x, {cpu:.2f}x and {memory:.2f}x "
        f"(at most {limit.time:g}x and {limit.memory:g}x)"
    )
