"""The library behind an agent against the library itself: what a run and a profile cost more.

A run's cost is what it takes beyond the library's own time, from its call to its return, which the
agent measures: the median of many, on a local stream. A profile asks about all samples of all
operations, of nnapi-reference; the two runtimes take turns, and the least time of each counts.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import ep_nnapi
from ep_nnapi.nnapi.clock import run_time
from ep_nnapi.nnapi.codes import OperandCode
from ep_nnapi.nnapi.model import Model, Operand, Operation
from ep_nnapi.nnapi.profile.record import record
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE, Device, Runtime
from ep_nnapi.nnapi.spec import FLOOR
from ep_nnapi.provider.devices import open_runtime
from ep_nnapi.remote.runtime import RemoteRuntime

ROOT = Path(__file__).parents[1]
LIBRARY = ep_nnapi.libneuralnetworks_path()
SIZES = (3, 1 << 16, 1 << 20)
"""Numbers of float32 of an input and of an output."""
RUNS = 200
ROUNDS = 2
MOST_SECONDS, MOST_TIMES = 1e-3, 1.5


def agent(folder: Path) -> RemoteRuntime:
    """Builds an agent in a folder, and starts it with this project's library."""
    subprocess.run(["make", "-s", "-C", ROOT / "native", f"BUILD={folder}"], check=True)
    words = [str(folder / "nnapi_agent"), "--folder", str(folder), "--runtime", LIBRARY]
    return RemoteRuntime("exec:agent", words.copy)


def reference(runtime: Runtime) -> Device:
    """nnapi-reference of a runtime."""
    return next(d for d in runtime.devices() if d.name == REFERENCE_DEVICE)


def cost(runtime: Runtime, size: int) -> float:
    """Seconds of a run beyond the library's own time: the median."""
    x = Operand(OperandCode.TENSOR_FLOAT32, (size,))
    model = Model((x, x), (Operation(FLOOR, (0,), (1,)),), (0,), (1,))
    compiled, given, costs = runtime.compile(model, reference(runtime)), np.ones(size, "f4"), []
    for _ in range(RUNS):
        own, begin = run_time(), perf_counter()
        compiled.run([given])
        costs.append((perf_counter() - begin) - (run_time() - own))
    return float(np.median(costs))


def show_runs(runtime: Runtime) -> None:
    """Prints a line for each size."""
    for size in SIZES:
        found, sent = cost(runtime, size), 2 * 4 * size
        limit = f" (limit {MOST_SECONDS * 1e3} ms)" if size == min(SIZES) else ""
        print(f"a run with {sent / 1e6:8.3f} MB: {found * 1e3:7.3f} ms{limit}", flush=True)


def seconds(runtime: Runtime) -> float:
    """Those of a profile."""
    begin = perf_counter()
    record(runtime, reference(runtime))
    return perf_counter() - begin


def show_profiles(there: Runtime) -> None:
    """Prints the times of profiles."""
    here = open_runtime(LIBRARY)
    rounds = [(seconds(here), seconds(there)) for _ in range(ROUNDS)]
    own, behind = map(min, zip(*rounds, strict=True))
    ratio = f"{behind / own:.2f} (limit {MOST_TIMES})"
    print(f"a profile: {own:.1f} s, behind an agent {behind:.1f} s: {ratio}", flush=True)


def main() -> None:
    """Builds an agent, and prints what it costs."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = agent(Path(folder))
        show_runs(runtime)
        show_profiles(runtime)


if __name__ == "__main__":
    main()
