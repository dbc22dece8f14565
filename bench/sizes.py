"""Time of a step where sizes change from run to run, beside the CPU provider's.

Each network is run once over its sizes by a new session of two threads, with each provider in
turn: the first pass counts, with what is compiled in it. The CPU provider has exact products
(session.x64quantprecision), as this one has. Decoders take one token after a cache that grows by
one, or that is of any length; encoders and images have any size. Of each step, the fastest of some
rounds counts: what is compiled in it is compiled in all of them. Outputs are dropped before the
next step, as caches are: to find memory for ever more outputs takes a system longer than to compute
them, and less where a session that took more memory has ended.

Of creations, which follow in a process that has made such sessions before, the one counts that took
all threads of the process the least processor time. Both providers take turns in them too.

`python -m bench sizes` prints the ratios of the time of all steps and of the slowest twentieth, and
that of a session's creation. It fails where not all runs of all clusters were
host-cpu's by the receipt, results differ, or steps exceed a limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnx
import onnxruntime

import ep_nnapi
from bench.open_networks import DECODERS, POSITIONS, detector, roberta
from models import zoo
from models.quantized import DYNAMIC, quantize

STEPS, IMAGES, ROUNDS, CREATIONS = 40, 20, 5, 10
MEAN, EACH = 1.15, 1.5
"""At most, of the CPU provider's time of all steps."""
BOTH = (False, True)
"""Whether a session has this provider."""
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A network and the sizes of its inputs in each step."""

    name: str
    make: Callable[[], onnx.ModelProto]
    sizes: Sequence[Sizes]


def cases() -> list[Case]:
    """The networks with their sizes, which are drawn."""
    rng = np.random.default_rng(0)
    lengths = [int(n) for n in rng.integers(2, POSITIONS // 2, STEPS)]
    caches = {"grows": range(8, 8 + STEPS), "jumps": lengths}
    found = [
        Case(f"{kind} {how}", decoder.model, [{"past": n, "length": 1} for n in past])
        for kind, decoder in DECODERS.items()
        for how, past in caches.items()
    ]
    tokens = [{"tokens": n} for n in lengths]
    found.append(Case("bert", lambda: _open("transformer_encoder"), tokens))
    found.append(Case("roberta", roberta, tokens))
    sides = rng.integers(4, 12, (IMAGES, 2)) * 16
    images = [{"height": int(h), "width": int(w)} for h, w in sides]
    found.append(Case("u-net", lambda: _open("segmentation"), images))
    return [*found, Case("detector", detector, images)]


def _open(name: str) -> onnx.ModelProto:
    return zoo.MODELS[name](dynamic=("batch", "size"))


@dataclass(frozen=True)
class Pass:
    """A session's first pass over the sizes: milliseconds of each step.

    results    if they are kept
    elsewhere  nodes of clusters of which not all runs were host-cpu's
    """

    steps: list[float]
    results: list[Sequence[np.ndarray]]
    elsewhere: list[str]


def passed(
    model: bytes, feeds: Sequence[Mapping[str, np.ndarray]], *, nnapi: bool, keep: bool = False
) -> Pass:
    """Runs a new session, which is there alone: threads of another one would be in its way."""
    session, steps, results = _session(model, nnapi=nnapi), [], []
    for given in feeds:
        started = perf_counter()
        found = session.run(None, given)
        steps.append(1e3 * (perf_counter() - started))
        if keep:
            results.append(found)
        del found
    clusters: Any = ep_nnapi.receipts()[-1]["clusters"] if nnapi else []
    short = [c for c in clusters if c["device"] != "host-cpu" or c["runs"] > c["device_runs"]]
    return Pass(steps, results, [node for cluster in short for node in cluster["nodes"]])


def created(model: bytes, *, nnapi: bool) -> float:
    """Milliseconds of processor time until a session is there; it ends afterwards."""
    started = process_time()
    session = _session(model, nnapi=nnapi)
    taken = 1e3 * (process_time() - started)
    del session
    return taken


def missed(cpu: Pass, ours: Pass) -> str:
    """What is wrong with a pass; "" for nothing."""
    for want, got in zip(cpu.results, ours.results, strict=True):
        for one, other in zip(want, got, strict=True):
            if not np.allclose(one, other, atol=0.05):  # some steps of dynamic quantization
                return f"results differ by {np.abs(one - other).max():g}"
    if ours.elsewhere:
        return f"host-cpu did not compute all runs of {len(ours.elsewhere)} nodes"
    return ""


def _session(model: bytes, *, nnapi: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.x64quantprecision", "1")
    if nnapi:
        ep_nnapi.append_execution_provider(options)
    return onnxruntime.InferenceSession(model, options)


def main() -> None:
    """Prints a row for each network, float and dynamically quantized; exits 1 past a limit."""
    failed, ratios = [], []
    print(f"{'network':22} {'CPU ms':>8} {'NNAPI ms':>8} {'ratio':>6} {'slow':>6} {'creation':>8}")
    for case in cases():
        for quantized in (False, True):
            network = case.make()
            feeds = [zoo.sample_inputs(network, i, **s) for i, s in enumerate(case.sizes)]
            if quantized:
                network = quantize(network, DYNAMIC, ())
            model = network.SerializeToString()
            name = f"{case.name}{' int8' * quantized}"
            rounds = [[passed(model, feeds, nnapi=n) for n in BOTH] for _ in range(ROUNDS)]
            creations = [[created(model, nnapi=n) for n in BOTH] for _ in range(CREATIONS)]
            found = _row(name, rounds, np.min(creations, axis=0))
            ratios.append(found)
            if wrong := missed(*(passed(model, feeds, nnapi=n, keep=True) for n in BOTH)):
                failed.append(f"{name}: {wrong}")
            if found > EACH:
                failed.append(f"{name}: {found:.2f} times the CPU provider's time")
    mean = geometric_mean(ratios)
    print(f"geometric mean {mean:.3f} (at most {MEAN}), the largest {max(ratios):.2f} ({EACH})")
    for line in failed:
        print(line, file=sys.stderr)
    if failed or mean > MEAN:
        sys.exit(1)


def _row(name: str, rounds: Sequence[Sequence[Pass]], creations: Sequence[float]) -> float:
    """Prints the fastest steps and creations of both; returns the ratio of the times of steps."""
    passes = list(zip(*rounds, strict=True))
    cpu, ours = (np.min([p.steps for p in each], axis=0) for each in passes)
    slow = np.quantile(ours, 0.95) / np.quantile(cpu, 0.95)
    ratio = sum(ours) / sum(cpu)
    print(
        f"{name:22} {sum(cpu):8.2f} {sum(ours):8.2f} {ratio:6.2f} {slow:6.2f}"
        f" {creations[1] / creations[0]:8.1f}",
        flush=True,
    )
    return float(ratio)


if __name__ == "__main__":
    main()
