"""Time and memory of a session that is created and run in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from ep_nnapi.sessions.cpu import session_of
from tests.onnx_backend.trial import provider_session, quiet

MOST_MEMORY = 6 << 30  # of address space that a process gets
MOST_SECONDS = 60  # of processor time
PATIENCE = 300.0  # seconds, on a busy machine


@dataclass(frozen=True)
class Cost:
    """Of making a session and running it once.

    outputs   None where it failed, which `failure` tells about
    seconds   of the processor, of all threads
    bytes     of resident memory at its peak, over what there was before
    """

    outputs: Sequence[np.ndarray] | None
    seconds: float = 0.0
    bytes: int = 0
    failure: str = ""


def cost(content: bytes, feeds: Mapping[str, np.ndarray], *, ours: bool) -> Cost:
    """On the CPU provider alone, or on ours before it."""
    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=_serve, args=(sending, content, feeds, ours), daemon=True)
    process.start()
    sending.close()
    try:
        if not receiving.poll(PATIENCE):
            return Cost(None, failure=f"no answer in {PATIENCE:.0f} s")
        return receiving.recv()
    except EOFError:
        process.join()
        return Cost(None, failure=f"exit status {process.exitcode}")
    finally:
        process.kill()
        process.join()
        receiving.close()


def _serve(pipe: Connection, content: bytes, feeds: Mapping[str, np.ndarray], ours: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    _run(_small(), {"x": np.ones((1, 1), np.float32)}, ours)  # what is loaded only once
    seconds = int(time.process_time()) + MOST_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, start = _status("VmRSS"), time.process_time()
    try:
        outputs = _run(content, feeds, ours)
    except Exception as error:  # whatever ONNX Runtime raises
        pipe.send(Cost(None, failure=" ".join(str(error).split())[:300]))
        return
    took = time.process_time() - start
    pipe.send(Cost(outputs, took, _status("VmHWM") - before))


def _run(content: bytes, feeds: Mapping[str, np.ndarray], ours: bool) -> Sequence[np.ndarray]:
    if not ours:
        session = session_of(content, quiet())
        return session.run(None, dict(feeds))
    session, _ = provider_session(content, quiet(), {})
    return session.run(None, dict(feeds))


def _small() -> bytes:
    pair = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 1)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", pair[:1], pair[1:])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _status(name: str) -> int:
    """A size in bytes that Linux tells of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise LookupError(name)
