"""Throughput of two threads on one session: runs per second over those of one thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import median
from threading import Barrier
from time import perf_counter

import onnxruntime

import ep_nnapi
from ep_nnapi.nnapi.array import Array
from models import zoo

MODEL = "squeezenet1_1"
SECONDS = 2.0
ROUNDS = 5


def session(model: bytes) -> onnxruntime.InferenceSession:
    """A session on the provider."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    ep_nnapi.append_execution_provider(options)
    return onnxruntime.InferenceSession(model, options)


def rate(opened: onnxruntime.InferenceSession, feeds: dict[str, Array], threads: int) -> float:
    """Runs per second of that many threads on one session."""
    together, runs = Barrier(threads), [0] * threads

    def repeat(number: int) -> float:
        together.wait()
        start = perf_counter()
        while perf_counter() - start < SECONDS:
            opened.run(None, feeds)
            runs[number] += 1
        return perf_counter() - start

    with ThreadPoolExecutor(threads) as pool:
        spent = max(pool.map(repeat, range(threads)))
    return sum(runs) / spent


def main() -> None:
    """Prints one line. One thread and two take turns, so that a busy machine slows both."""
    model = zoo.MODELS[MODEL]()
    opened, feeds = session(model.SerializeToString()), zoo.sample_inputs(model)
    opened.run(None, feeds)
    rounds = [(rate(opened, feeds, 1), rate(opened, feeds, 2)) for _ in range(ROUNDS)]
    one, two = (median(rates) for rates in zip(*rounds, strict=True))
    gain = median(b / a for a, b in rounds)
    print(
        f"threads on one session, {MODEL}: one {one:.1f} runs/s, two {two:.1f} runs/s, "
        f"{gain:.2f}x (median of {ROUNDS} rounds)"
    )


if __name__ == "__main__":
    main()
