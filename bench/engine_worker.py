"""A session in a process of its own, driven line by line, for `bench.engines`.

Each line on stdin is a number of runs; the answer is a line with the seconds and the processor
seconds of one run. The first answer describes the creation of the session.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import onnxruntime

import ep_nnapi
from models import zoo

CPU = "CPUExecutionProvider"


def model_of(name: str) -> bytes:
    """The zoo's model; NAME:SCHEME is its quantized form."""
    base, _, scheme = name.partition(":")
    built = zoo.quantized(base, scheme) if scheme else zoo.MODELS[base]()
    return bytes(built.SerializeToString())


def session(model: bytes, engine: str, threads: int) -> onnxruntime.InferenceSession:
    """A session on the CPU provider with exact integer products, or on an NNAPI device."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if engine == CPU:
        options.add_session_config_entry("session.x64quantprecision", "1")
        return onnxruntime.InferenceSession(model, options, providers=[CPU])
    ep_nnapi.append_execution_provider(options, device=engine)
    return onnxruntime.InferenceSession(model, options)


def peak() -> float:
    """The greatest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def serve(name: str, engine: str, threads: int) -> None:
    """Create the session twice (the first one also imports), then run as often as asked."""
    from onnx import load_from_string

    model = model_of(name)
    feeds = zoo.sample_inputs(load_from_string(model))
    session(model_of("mlp"), engine, threads).run(None, zoo.sample_inputs(zoo.MODELS["mlp"]()))
    wall, processor = time.perf_counter(), time.process_time()
    built = session(model, engine, threads)
    created = time.perf_counter() - wall, time.process_time() - processor
    built.run(None, feeds)
    print(json.dumps([*created, peak()]), flush=True)
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            built.run(None, feeds)
        spent = time.perf_counter() - wall, time.process_time() - processor
        print(json.dumps([s / int(line) for s in spent]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
