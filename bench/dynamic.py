"""Cost of a symbolic size: the first run of new sizes, the runs after it, and a fixed model.

Everything is measured turn by turn in one process and in its own time of all processors, which a
busy machine changes little: read the ratios. The first run is made anew for every sample by a cache
of one set of sizes. Last comes what is added to each call of a small network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import process_time
from typing import Unpack

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from ep_nnapi.options.table import OptionKeywords
from ep_nnapi.sessions.cpu import session_of
from models import zoo

SAMPLES = 5
RUNS = 3
"""Runs of known sizes after each first one."""
CALLS = 2000
BATCHES = 1, 2
"""Of the small network, in turn."""


@dataclass(frozen=True)
class Case:
    """A network of the zoo, and two sizes of its inputs; the batch is 1."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, int]

    def feeds(self, model: onnx.ModelProto, size: int) -> dict[str, np.ndarray]:
        """Inputs of that size."""
        return zoo.sample_inputs(model, **dict.fromkeys(self.dims, size))


CASES = (
    Case("espcn", ("height", "width"), (64, 96)),
    Case("segmentation", ("height", "width"), (96, 128)),
    Case("mobilenet_v2", ("height", "width"), (96, 128)),
    Case("resnet18", ("height", "width"), (64, 96)),
    Case("transformer_encoder", ("tokens",), (32, 48)),
)


@dataclass(frozen=True)
class Times:
    """Medians of processor time in seconds."""

    first: float
    next: float
    fixed: float


def measured(case: Case) -> Times:
    """The network's times with the first of the two sizes; the second is there to be new."""
    dynamic = zoo.MODELS[case.name](dynamic=("batch", "size"))
    small, large = (case.feeds(dynamic, size) for size in case.sizes)
    forgetful = _session(dynamic, shape_cache=1)
    static = _session(zoo.MODELS[case.name](size=case.sizes[0]))
    first, later, fixed = [], [], []
    for _ in range(SAMPLES):
        forgetful.run(None, large)  # forgets the other sizes
        first.append(_seconds(lambda: forgetful.run(None, small)))
        for _ in range(RUNS):
            later.append(_seconds(lambda: forgetful.run(None, small)))
            fixed.append(_seconds(lambda: static.run(None, small)))
    return Times(median(first), median(later), median(fixed))


def added() -> tuple[float, float, float]:
    """Medians of processor seconds of calls of mlp: the CPU provider's, a fixed batch's, any's.

    Each on one thread: others would spin.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    models = [zoo.MODELS["mlp"](batch=batch) for batch in BATCHES]
    any_batch = _session(zoo.MODELS["mlp"](dynamic=("batch",)), intra_op_num_threads=1)
    turns = [
        [
            session_of(model.SerializeToString(), options),
            _session(model, intra_op_num_threads=1),
            any_batch,
        ]
        for model in models
    ]
    feeds = [dict(zoo.sample_inputs(model)) for model in models]
    times: list[list[float]] = [[], [], []]
    for number in range(CALLS):
        turn = number % len(BATCHES)
        for session, found in zip(turns[turn], times, strict=True):
            found.append(_seconds(partial(session.run, None, feeds[turn])))
    cpu, fixed, any_size = map(median, times)
    return cpu, fixed - cpu, any_size - cpu


def main() -> None:
    """Prints a table and a line."""
    others = SAMPLES * RUNS
    print(f"medians of {SAMPLES} first runs and {others} others, milliseconds of processors")
    print("network              first    next   fixed  first/next  next/fixed")
    for case in CASES:
        found = measured(case)
        first, later, fixed = (1e3 * t for t in (found.first, found.next, found.fixed))
        ratios = f"{first / later:10.1f}  {later / fixed:10.2f}"
        print(f"{case.name:20} {first:6.1f}  {later:6.1f}  {fixed:6.1f}  {ratios}", flush=True)
    cpu, fixed, later = (1e6 * t for t in added())
    print(f"mlp: {cpu:.0f} µs, a fixed batch adds {fixed:.0f}, two sizes of a symbolic {later:.0f}")


def _session(
    model: onnx.ModelProto, **options: Unpack[OptionKeywords]
) -> onnxruntime.InferenceSession:
    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 3
    ep_nnapi.append_execution_provider(chosen, **options)
    return onnxruntime.InferenceSession(model.SerializeToString(), chosen)


def _seconds(run: Callable[[], object]) -> float:
    started = process_time()
    run()
    return process_time() - started


if __name__ == "__main__":
    main()
