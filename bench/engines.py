"""Latency, CPU time, session creation and memory: ONNX Runtime's CPU provider and NNAPI devices.

Each engine runs in a process of its own, which is idle while another one runs. The engines take
turns in rounds, in alternating order; a ratio is the median over the rounds of the CPU
provider's time over the device's, more than 1 where the device is faster. The CPU provider computes
exact integer products, as the devices do: processors without VNNI need a slower way for that
(session.x64quantprecision).

`python -m bench engines` prints the table and writes build/engines.json, from which
`python -m bench engines_figure` renews the picture of docs/good_to_know.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import onnx

from bench.engine_worker import CPU
from ep_nnapi.costs import this_machine
from ep_nnapi.sessions.cpu import saturates
from models import zoo

HOST_CPU, REFERENCE = "host-cpu", "nnapi-reference"
WORTH_IT = "host-cpu worth_it"
"""host-cpu with the partitioning worth_it, which leaves small models to the CPU provider."""
SMALL = ("mlp", "kws_dscnn", "denoiser", "denoiser_lstm")
THREADS = (1, 2)
ROUNDS = 11
SECONDS = 0.1
"""Time of one engine in one round, at least one run."""
QUANTIZED = ("mobilenet_v1", "mobilenet_v2", "resnet18", "kws_dscnn")
SCHEMES = ("u8u8", "u8s8", "s8s8")
DYNAMIC = ("mlp:dynamic", "transformer_encoder:dynamic")
"""Models whose products are of integers with scales that a run finds."""
CREATED = ("mobilenet_v2", "resnet50")
"""Models whose creation of a session the summary names."""
PROCESSES = 5
"""Fresh processes that create a session of one of them; the medians count."""
OUTPUT = Path("build/engines.json")


@dataclass(frozen=True)
class Row:
    """One device on one model against the CPU provider; times in milliseconds, memory in MB.

    ratio, low, high   median and quartiles over the rounds of the CPU provider's time over ours
    cpu_ratio          the same of processor time
    create_ratio       our processor time for creating the session over the CPU provider's
    compiled_ratio     the same for a session of the model that ONNX Runtime has compiled for ours
    memory_ratio       the same of the greatest memory of the whole process
    """

    model: str
    threads: int
    device: str
    theirs: float
    ours: float
    ratio: float
    low: float
    high: float
    cpu_ratio: float
    create_ratio: float
    compiled_ratio: float
    memory_ratio: float

    def __str__(self) -> str:
        return (
            f"{self.model:24} {self.threads:2} {self.device:16} {self.theirs:9.3f} {self.ours:9.3f}"
            f" {self.ratio:6.2f} ({self.low:.2f}-{self.high:.2f}) {self.cpu_ratio:8.2f}"
            f" {self.create_ratio:8.2f} {self.compiled_ratio:8.2f} {self.memory_ratio:8.2f}"
        )


class Created(NamedTuple):
    """What creating a session takes.

    processor   seconds
    memory      in MB
    again       processor seconds of creating one again, on an NNAPI device from the compiled model
    """

    processor: float
    memory: float
    again: float


@dataclass(frozen=True)
class Worker:
    """A process with a session."""

    process: subprocess.Popen[str]
    created: Created

    def run(self, count: int) -> tuple[float, float]:
        """Seconds and processor seconds of one of `count` runs."""
        wall, processor = _asked(self.process, str(count))
        return wall, processor


def _asked(process: subprocess.Popen[str], line: str = "") -> list[float]:
    """The numbers that a worker answers."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the worker has no pipes")
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    found: list[float] = json.loads(process.stdout.readline())
    return found


@contextmanager
def folder_of(model: str) -> Iterator[Path]:
    """A folder with a model of the zoo and what else workers read; NAME:SCHEME is quantized."""
    base, _, scheme = model.partition(":")
    built = {
        "model": zoo.quantized(base, scheme) if scheme else zoo.MODELS[base](),
        "first": zoo.MODELS["mlp"](),
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, proto in built.items():
            onnx.save(proto, folder / f"{file}.onnx")
            feeds: dict[str, Any] = dict(zoo.sample_inputs(proto))
            np.savez(folder / f"{file}.npz", **feeds)
        yield folder


@contextmanager
def worker(folder: Path, engine: str, threads: int) -> Iterator[Worker]:
    """A process whose session is ready."""
    command = [sys.executable, "-m", "bench.engine_worker", str(folder), engine, str(threads)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) as process:
        yield Worker(process, Created(*_asked(process)))
        if process.stdin is not None:
            process.stdin.close()


def created(folder: Path, engine: str, threads: int, times: int) -> Iterator[Created]:
    """Yields what a session's creation takes in each of several fresh processes."""
    for _ in range(times):
        with worker(folder, engine, threads) as fresh:
            yield fresh.created


def measure(model: str, threads: int, devices: Sequence[str], rounds: int) -> list[Row]:
    """One row for each device."""
    with ExitStack() as stack:
        engines = [CPU, *devices]
        folder = stack.enter_context(folder_of(model))
        workers = [stack.enter_context(worker(folder, e, threads)) for e in engines]
        counts = [max(1, int(SECONDS / w.run(1)[0])) for w in workers]
        times: list[list[tuple[float, float]]] = [[] for _ in workers]
        for number in range(rounds):
            order = range(len(workers)) if number % 2 else reversed(range(len(workers)))
            for i in order:
                times[i].append(workers[i].run(counts[i]))
        processes = PROCESSES if model in CREATED else 1
        creations = [
            [workers[i].created, *created(folder, engine, threads, processes - 1)]
            for i, engine in enumerate(engines)
        ]
    return [
        _row(model, threads, device, (times[0], times[i]), (creations[0], creations[i]))
        for i, device in enumerate(devices, 1)
    ]


def _row(
    model: str,
    threads: int,
    device: str,
    times: tuple[list[tuple[float, float]], list[tuple[float, float]]],
    creations: tuple[list[Created], list[Created]],
) -> Row:
    theirs, ours = times
    ratios = [a[0] / b[0] for a, b in zip(theirs, ours, strict=True)]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    cold, memory, compiled = (
        median(mine) / max(median(of_cpu), 1e-9)
        for of_cpu, mine in zip(*(zip(*found, strict=True) for found in creations), strict=True)
    )
    return Row(
        model,
        threads,
        device,
        median(a[0] for a in theirs) * 1e3,
        median(b[0] for b in ours) * 1e3,
        median(ratios),
        low,
        high,
        median(a[1] / b[1] for a, b in zip(theirs, ours, strict=True)),
        cold,
        compiled,
        memory,
    )


def geometric_mean(numbers: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, numbers)) / len(numbers))


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yields lines about one device: ratios by kind of model, and its added time on small ones."""
    floats = [r for r in rows if ":" not in r.model]
    kinds = {"float models above 1 ms": [r for r in floats if r.theirs > 1]}
    kinds |= {scheme: [r for r in rows if r.model.endswith(f":{scheme}")] for scheme in SCHEMES}
    kinds["dynamic"] = [r for r in rows if r.model in DYNAMIC]
    for kind, found in kinds.items():
        if found:
            least = min(found, key=lambda r: r.ratio)
            mean = geometric_mean([r.ratio for r in found])
            yield f"{kind}: {mean:.3f} geometric mean, least {least.ratio:.2f} ({least.model})"
    for row in (r for r in floats if r.theirs <= 1):
        yield f"{row.model}: {(row.ours - row.theirs) * 1e3:.0f} µs added to {row.theirs:.3f} ms"
    for row in (r for r in floats if r.model in CREATED):
        yield (
            f"{row.model}: creation {row.create_ratio:.2f}, compiled {row.compiled_ratio:.2f}, "
            f"memory {row.memory_ratio:.2f} times the CPU provider's"
        )


def machine() -> str:
    """The machine, and whether it has VNNI, which decides on the kernels of quantized models."""
    return f"{this_machine()}, {'without' if saturates() else 'with'} VNNI"


def models() -> list[tuple[str, tuple[str, ...]]]:
    """The models, and the devices that are measured on each."""
    static = (f"{name}:{scheme}" for name in QUANTIZED for scheme in SCHEMES)
    names = [*zoo.MODELS, *static, *DYNAMIC]
    both, all_three = (HOST_CPU, REFERENCE), (HOST_CPU, REFERENCE, WORTH_IT)
    return [(name, all_three if name.partition(":")[0] in SMALL else both) for name in names]


def main(rounds: int = ROUNDS) -> None:
    """Prints the table and writes the JSON."""
    heads = (
        "theirs ms",
        "ours ms",
        "ratio (quartiles)",
        "cpu time",
        "creation",
        "compiled",
        "memory",
    )
    print(machine())
    print(f"{'model':24} th {'device':16} " + " ".join(heads))
    rows: list[Row] = []
    for threads in THREADS:
        for name, devices in models():
            for row in measure(name, threads, devices, rounds):
                rows.append(row)
                print(row, flush=True)
    for threads in THREADS:
        found = [r for r in rows if r.threads == threads and r.device == HOST_CPU]
        print(*(f"{threads} threads, {line}" for line in summary(found)), sep="\n")
        small = [r for r in rows if r.threads == threads and r.device == WORTH_IT]
        least = min(small, key=lambda r: r.ratio)
        print(f"{threads} threads, worth_it: least {least.ratio:.2f} ({least.model})")
    OUTPUT.parent.mkdir(exist_ok=True)
    result = {"machine": machine(), "rows": [asdict(r) for r in rows]}
    OUTPUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
