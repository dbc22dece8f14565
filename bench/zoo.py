"""The zoo on nnapi-reference beside ONNX Runtime's CPU provider at one thread, in the same run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from statistics import median

import onnxruntime as ort

import ep_nnapi
from models import zoo

RUNS = 7
CPU, NNAPI = "CPUExecutionProvider", "nnapi-reference"


def session(model: bytes, device: str) -> ort.InferenceSession:
    """A session on one of the two, whose CPU nodes have one thread that does not spin."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if device == CPU:
        return ort.InferenceSession(model, options, providers=[CPU])
    ep_nnapi.append_execution_provider(options)
    return ort.InferenceSession(model, options)


def measure(name: str, device: str) -> dict[str, float]:
    """Milliseconds and CPU-seconds of a run, and the peak memory of this process in MB."""
    model = zoo.MODELS[name]()
    feeds = zoo.sample_inputs(model)
    opened = session(model.SerializeToString(), device)
    opened.run(None, feeds)
    times, began = [], time.process_time()
    for _ in range(RUNS):
        start = time.perf_counter()
        opened.run(None, feeds)
        times.append(time.perf_counter() - start)
    return {
        "ms": median(times) * 1e3,
        "cpu": (time.process_time() - began) / RUNS,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_process(name: str, device: str) -> dict[str, float]:
    """`measure` in a process of its own, so that peaks and threads do not mix."""
    code = f"import json, bench.zoo as z; print(json.dumps(z.measure({name!r}, {device!r})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints one line a model."""
    head = ("NNAPI ms", "CPU ms", "ratio", "NNAPI s", "CPU s", "NNAPI MB", "CPU MB")
    print(f"{'model':20} " + " ".join(f"{h:>9}" for h in head))
    for name in zoo.MODELS:
        ours, theirs = in_process(name, NNAPI), in_process(name, CPU)
        print(
            f"{name:20} {ours['ms']:9.2f} {theirs['ms']:8.2f} {ours['ms'] / theirs['ms']:5.1f}x"
            f" {ours['cpu']:8.3f} {theirs['cpu']:7.3f} {ours['mb']:9.0f} {theirs['mb']:7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
