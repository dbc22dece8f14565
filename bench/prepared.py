"""Prepared models: the plugin in C against Python's provider, on the same NNAPI library.

Session creation: MobileNetV2, prepared, in sessions that take turns. "first": the elapsed time with
weights whose digest no session has checked yet, which the plugin in C computes in a thread; the
least of several, because other programs add to it. "later": the median processor time.

The call: a cluster of digits.onnx, from ONNX Runtime's call of Compute to its return, timed by a
plugin in front of it.

The libraries are this project's and a stand-in whose functions do next to nothing, on which the
time is that of the provider itself and of ONNX Runtime.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import TypeAlias

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from models.zoo import MODELS

ROUNDS, CALLS = 9, 20_000
MOST_OF_PYTHON, MOST_MICROSECONDS = 1 / 3, 3.0
NAME = "NnapiContextExecutionProvider"
ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "models" / "digits.onnx"
Libraries: TypeAlias = Mapping[str, dict[str, str]]
"""Options that name a library and its device, by what the library is called here."""


def compiled(folder: Path, name: str, source: Path) -> Path:
    """Returns a shared library that is compiled from one C file."""
    command = ["cc", "-std=c11", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'native'}", str(source)]
    subprocess.run([*command, "-o", str(folder / name), "-ldl"], check=True)
    return folder / name


def prepared(model: onnx.ModelProto, folder: Path) -> Path:
    """Returns the path of the model with its cluster compiled."""
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    ep_nnapi.prepare(folder / "model.onnx", folder / "out", format="context", verify=False)
    return folder / "out" / "model_ctx.onnx"


def _session_options() -> onnxruntime.SessionOptions:
    """One thread: those of a pool would spin meanwhile and be counted."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def c_session(model: Path, options: dict[str, str]) -> onnxruntime.InferenceSession:
    """Creates a session with the plugin in C."""
    chosen = _session_options()
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == NAME]
    chosen.add_provider_for_devices(devices[:1], options)
    return onnxruntime.InferenceSession(str(model), chosen)


def python_session(model: Path, options: dict[str, str]) -> onnxruntime.InferenceSession:
    """Creates a session with Python's provider."""
    chosen = _session_options()
    ep_nnapi.append_execution_provider(chosen, **options)
    return onnxruntime.InferenceSession(str(model), chosen)


Create: TypeAlias = Callable[[Path, dict[str, str]], onnxruntime.InferenceSession]
PROVIDERS: tuple[Create, Create] = (c_session, python_session)


def milliseconds(
    create: Create, model: Path, options: dict[str, str], clock: Callable[[], float]
) -> float:
    """The time on a clock that a session takes."""
    started = clock()
    create(model, options)
    return (clock() - started) * 1e3


def creation(folder: Path, libraries: Libraries) -> None:
    """Prints two rows for each library."""
    model = prepared(MODELS["mobilenet_v2"](), folder / "mobilenet_v2")
    (weights,) = model.parent.glob("*.weights")
    print(f"{'session of mobilenet_v2, on':32} {'C ms':>8} {'Python ms':>10} ratio")
    for name, options in libraries.items():
        first = least_first(model, weights, options)
        sleep(3.1)  # the digest of a file that was written just now is not remembered
        later = [
            [milliseconds(create, model, options, process_time) for create in PROVIDERS]
            for _ in range(ROUNDS + 1)
        ][1:]
        row(f"{name}, first", *first)
        row(f"{name}, later", *(median(times) for times in zip(*later, strict=True)))


def least_first(model: Path, weights: Path, options: dict[str, str]) -> list[float]:
    """The least elapsed time of each provider with weights that are new to the process."""
    least = [float("inf") for _ in PROVIDERS]
    for _ in range(2 * ROUNDS):
        for index, create in enumerate(PROVIDERS):
            os.utime(weights)  # another file, as far as sessions know
            least[index] = min(least[index], milliseconds(create, model, options, perf_counter))
    return least


def row(name: str, ours: float, python: float) -> None:
    """Prints a pair of times and their ratio."""
    ratio = ours / python
    fits = "" if ratio <= MOST_OF_PYTHON else f" (more than {MOST_OF_PYTHON:.2f})"
    print(f"{name:32} {ours:8.1f} {python:10.1f} {ratio:5.2f}{fits}")


def calls(folder: Path, timer: ctypes.CDLL, options: dict[str, str]) -> None:
    """Prints the time in the plugin, with outputs where they were before and elsewhere."""
    times = (ctypes.c_int64 * (1 << 16)).in_dll(timer, "timed_nanoseconds")
    count = ctypes.c_int64.in_dll(timer, "timed_calls")
    session = c_session(prepared(onnx.load(DIGITS), folder / "digits"), options)
    feeds = {"image": np.zeros((1, 1, 8, 8), np.float32)}

    def spent(keep: bool) -> float:
        count.value = 0
        kept: list[object] = []
        for _ in range(CALLS):
            found = session.run(None, feeds)
            kept = [*kept[-1:], found] if keep else []
        return median(times[:CALLS]) / 1e3

    same, other = spent(keep=False), spent(keep=True)
    fits = "" if max(same, other) <= MOST_MICROSECONDS else f" (more than {MOST_MICROSECONDS})"
    print(
        f"call of the plugin in C: {same:.2f} µs, {other:.2f} µs if outputs are elsewhere each time"
        f" (median of {CALLS}){fits}"
    )


def main() -> None:
    """Prints both."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        timer = ctypes.CDLL(str(compiled(folder, "timer.so", ROOT / "bench" / "call_timer.c")))
        plugin = ctypes.create_string_buffer(ep_nnapi.context_library_path().encode())
        ctypes.c_void_p.in_dll(timer, "timed_library").value = ctypes.addressof(plugin)
        onnxruntime.register_execution_provider_library(NAME, str(folder / "timer.so"))
        source = ROOT / "tests" / "native" / "stand_in.c"
        stand_in = str(compiled(folder, "libneuralnetworks.so", source))
        libraries = {
            "a stand-in": {"runtime": stand_in, "device": "stand-in"},
            "this project's library": {
                "runtime": ep_nnapi.libneuralnetworks_path(),
                "device": "nnapi-reference",
            },
        }
        creation(folder, libraries)
        calls(folder, timer, libraries["a stand-in"])


if __name__ == "__main__":
    main()
