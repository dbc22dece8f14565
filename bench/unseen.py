"""Time to create a session of a network that the process has not seen, beside the CPU provider's.

Everything is imported and warm; the weights are drawn anew for each session, so that nothing found
for an earlier one serves, and no option names a cache. Both providers take turns with one model;
processor milliseconds of this process, of which the fastest round counts, until the session is
there: its end is not part of them. "thread" is the ratio of the creating thread's alone: the
others, of ONNX Runtime's pools, have nothing to do yet and spin for some 40 ms after their
creation, where a core is free.

`python -m bench unseen` prints the table and fails where a ratio is above the limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time, thread_time
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

import ep_nnapi
from models import zoo

Times: TypeAlias = tuple[float, float]

ROUNDS = {"mobilenet_v2": 8, "kws_dscnn": 40, "resnet50": 5}
RATIO = 2.5
"""Most, of a session's time with this provider to that with the CPU provider."""


def redrawn(network: onnx.ModelProto, seed: int) -> bytes:
    """The network with other weights of the same sizes, each some percent away."""
    rng = np.random.default_rng(seed)
    for tensor in network.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) > 1:
            weights = numpy_helper.to_array(tensor)
            drawn = weights * rng.uniform(0.95, 1.05, weights.shape).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    return bytes(network.SerializeToString())


def on_cpu(model: bytes) -> onnxruntime.InferenceSession:
    """A session of the CPU provider."""
    return onnxruntime.InferenceSession(model, _options(), providers=["CPUExecutionProvider"])


def on_nnapi(model: bytes) -> onnxruntime.InferenceSession:
    """A session of this provider with its defaults."""
    options = _options()
    ep_nnapi.append_execution_provider(options)
    return onnxruntime.InferenceSession(model, options)


def milliseconds(create: Callable[[bytes], onnxruntime.InferenceSession], model: bytes) -> Times:
    """Processor time until the session is there, of this thread and of all; it ends afterwards."""
    started = thread_time(), process_time()
    session = create(model)
    taken = thread_time() - started[0], process_time() - started[1]
    del session
    return taken[0] * 1e3, taken[1] * 1e3


def measured(name: str) -> tuple[Times, Times]:
    """The least milliseconds of this thread and of all, with the CPU provider and with this one."""
    network = zoo.MODELS[name]()
    kinds = (on_cpu, on_nnapi)
    for create in kinds:
        milliseconds(create, redrawn(network, 0))  # imports are not counted
    rounds = []
    for seed in range(1, ROUNDS[name] + 1):
        model = redrawn(network, seed)
        rounds.append([milliseconds(create, model) for create in kinds])
    cpu, nnapi = (
        (min(thread for thread, _ in times), min(every for _, every in times))
        for times in zip(*rounds, strict=True)
    )
    return cpu, nnapi


def main() -> None:
    """Prints a row for each network; exits 1 if a ratio is above the limit."""
    worst = 0.0
    print(f"{'network':14} {'CPU ms':>8} {'NNAPI ms':>8} {'ratio':>6} {'thread':>7}")
    for name in ROUNDS:
        (cpu_thread, cpu), (thread, nnapi) = measured(name)
        worst = max(worst, nnapi / cpu)
        found = f"{nnapi / cpu:6.2f} {thread / cpu_thread:7.2f}"
        print(f"{name:14} {cpu:8.1f} {nnapi:8.1f} {found} (at most {RATIO})", flush=True)
    if worst > RATIO:
        sys.exit(1)


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return options


if __name__ == "__main__":
    main()
