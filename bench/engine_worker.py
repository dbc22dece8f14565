"""Sessions in a process of their own, driven line by line, for `bench.engines`.

The process works in a folder with `model.onnx`, `first.onnx`, whose session is created first so
that imports are not counted, and the inputs of both, `model.npz` and `first.npz`. Each line on
stdin is a number of runs; the answer is a line with the seconds and the processor seconds of one
run. The first answer describes the creation of the sessions. Each answer is given once the process
is idle.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnxruntime

import ep_nnapi
from ep_nnapi.sessions.cpu import exact_options

CPU = "CPUExecutionProvider"
_ROUNDS = 3
_PAUSE = 0.01
_IDLE = 0.1
"""Part of a pause in processor time that an idle process takes at most."""


def session(
    model: Path, engine: str, threads: int, compiled: Path | None = None
) -> onnxruntime.InferenceSession:
    """A session on the CPU provider with exact integer products, or on an NNAPI device.

    engine     the CPU provider, or a device and perhaps, after a space, the partitioning
    compiled   where ONNX Runtime writes the compiled model; default: it writes none
    """
    options = exact_options()
    options.intra_op_num_threads = threads
    if engine == CPU:
        return onnxruntime.InferenceSession(str(model), options, providers=[CPU])
    if compiled is not None:
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_embed_mode", "0")
        options.add_session_config_entry("ep.context_file_path", str(compiled))
    device, _, partitioning = engine.partition(" ")
    chosen = {"partitioning": partitioning} if partitioning else {}
    ep_nnapi.append_execution_provider(options, device=device, **chosen)
    return onnxruntime.InferenceSession(str(model), options)


def reset_peak() -> None:
    """Starts the measurement of `peak` again; only Linux can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "utf-8")


def peak() -> float:
    """The greatest resident memory of this process in MB, since `reset_peak` on Linux."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seconds_again(folder: Path, engine: str, threads: int) -> float:
    """Processor seconds of creating a session again, on an NNAPI device from the compiled model."""
    model = folder / "model.onnx"
    if engine != CPU:
        compiled = folder / f"{engine}.onnx"
        if not compiled.exists():
            session(model, engine, threads, compiled)
        if compiled.exists():  # none is written where NNAPI takes no node
            model = compiled
    return min(_timed(model, engine, threads)[1] for _ in range(_ROUNDS))


def _timed(model: Path, engine: str, threads: int) -> tuple[onnxruntime.InferenceSession, float]:
    """A session, and the processor seconds of its creation."""
    processor = time.process_time()
    created = session(model, engine, threads)
    return created, time.process_time() - processor


def settle() -> None:
    """Wait until this process is idle.

    Threads of ONNX Runtime and of OpenBLAS spin for a while after their last run, and would take a
    core from the process that runs next.
    """
    spent = math.inf
    while spent > _IDLE * _PAUSE:
        before = time.process_time()
        time.sleep(_PAUSE)
        spent = time.process_time() - before


def answer(numbers: Sequence[float]) -> None:
    """Print numbers in one line once this process is idle."""
    settle()
    print(json.dumps(numbers), flush=True)


def serve(folder: Path, engine: str, threads: int) -> None:
    """Create the sessions, then run one of them as often as asked."""
    first, feeds = (dict(np.load(folder / f"{name}.npz")) for name in ("first", "model"))
    session(folder / "first.onnx", engine, threads).run(None, first)
    reset_peak()
    built, created = _timed(folder / "model.onnx", engine, threads)
    built.run(None, feeds)
    memory = peak()
    answer([created, memory, seconds_again(folder, engine, threads)])
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            built.run(None, feeds)
        spent = time.perf_counter() - wall, time.process_time() - processor
        answer([s / int(line) for s in spent])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
