"""What `tune` chooses for each network, beside ONNX Runtime's CPU provider with as many threads.

Each network is tuned in a process of its own. Then the CPU provider, host-cpu, litert-cpu and the
choice take turns, block by block, as in `tune`; a ratio is the median of the CPU provider's times
over that of the other's, more than 1 where that is faster. Where the choice is the CPU provider,
its ratio is 1. The receipt of a choice with NNAPI must say that its device computed every run.

`python -m bench tuned` prints the table and writes build/tuned.json. It needs the extra `litert`;
 ONLY=digits,mlp in the environment measures these alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from bench.engines import THREADS, geometric_mean, machine
from bench.engines import models as engine_models
from ep_nnapi.diagnostics.inputs import Feeds
from ep_nnapi.options.settings import Chosen
from ep_nnapi.tuning.candidates import NNAPI_AWARE, Candidate, Session, Subject
from ep_nnapi.tuning.search import TuningBudget, interleaved
from ep_nnapi.tuning.tune import tune
from models import zoo

DIGITS = Path("models/digits.onnx")
CPU = Candidate(Chosen.CPU, "all")
DEVICES = ("host-cpu", "litert-cpu")
SECONDS = 6.0
"""Of measurement: of tuning, and as many of what it chose."""
ROUNDS = 1000
OUTPUT = Path("build/tuned.json")


@dataclass(frozen=True)
class Row:
    """One network.

    choice   name of the candidate, and its ratio
    devices  ratio of each device
    """

    model: str
    threads: int
    milliseconds: float
    choice: str
    ratio: float
    devices: Mapping[str, float]

    def __str__(self) -> str:
        ratios = " ".join(f"{self.devices[name]:10.2f}" for name in DEVICES)
        head = f"{self.model:27} {self.threads:2} {self.milliseconds:9.3f} {ratios}"
        return f"{head} {self.ratio:7.2f} {self.choice}"


def network(name: str) -> onnx.ModelProto:
    """A network of `bench.engines`, or digits."""
    base, _, scheme = name.partition(":")
    if base == DIGITS.stem:
        return onnx.load(DIGITS)
    return zoo.quantized(base, scheme) if scheme else zoo.MODELS[base]()


def measured(name: str, threads: int) -> Row:
    """Tunes a network, and measures the choice."""
    proto = network(name)
    model, feeds = proto.SerializeToString(), Feeds((zoo.sample_inputs(proto),))
    best = tune(model, seconds=SECONDS, intra_op_num_threads=threads).choice.best.candidate
    with TemporaryDirectory() as folder:
        receipt = Path(folder, "receipt.json")
        subject = Subject(model, feeds, feeds, (), None, Path(folder))
        count = {"intra_op_num_threads": threads}
        wanted = {"cpu": replace(CPU, options=count)}
        for device in DEVICES:
            options = {**count, "device": device}
            wanted[device] = Candidate(Chosen.NNAPI, NNAPI_AWARE, options)
        if not best.on_cpu:
            wanted["choice"] = replace(best, options={**best.options, "receipt": str(receipt)})
        sessions = {n: subject.open(c) for n, c in wanted.items()}
        times = _times(sessions, feeds)
        del sessions
        if not best.on_cpu:
            _check(json.loads(receipt.read_text("utf-8")), str(best.options["device"]))
    ratios = {n: times["cpu"] / seconds for n, seconds in times.items()}
    devices = {device: ratios[device] for device in DEVICES}
    return Row(name, threads, times["cpu"] * 1e3, best.name, ratios.get("choice", 1.0), devices)


def _times(sessions: Mapping[str, Session], feeds: Feeds) -> dict[str, float]:
    runs = {name: partial(session.run, feeds) for name, session in sessions.items()}
    budget = TuningBudget(SECONDS, fewest=10, racing=ROUNDS, most=ROUNDS, warm_up=3)
    return {name: timing.seconds for name, timing in interleaved(runs, budget).items()}


def _check(receipt: Mapping[str, list[dict[str, object]]], device: str) -> None:
    """Raises ValueError unless the device computed all runs of all clusters."""
    for cluster in receipt["clusters"]:
        if (cluster["device"], cluster["device_runs"]) != (device, cluster["runs"]):
            raise ValueError(f"{device} did not compute every run: {cluster}")


def in_process(name: str, threads: int) -> Row:
    """`measured` in a process of its own."""
    code = f"import bench.tuned as t; t.answer({name!r}, {threads})"
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    return Row(**json.loads(done.stdout))


def answer(name: str, threads: int) -> None:
    """Prints the row as JSON."""
    print(json.dumps(asdict(measured(name, threads))))


def summary(rows: Sequence[Row]) -> str:
    """The geometric mean and the least ratio of the choices, and of the better device."""
    kinds = {
        "tune's choice": [(row.ratio, row.model) for row in rows],
        "better device": [(max(row.devices.values()), row.model) for row in rows],
    }
    return "; ".join(
        f"{kind} {geometric_mean([r for r, _ in found]):.3f} geometric mean, least "
        f"{min(found)[0]:.2f} ({min(found)[1]})"
        for kind, found in kinds.items()
    )


def main() -> None:
    """Prints the table and writes the JSON."""
    only = [*filter(None, os.environ.get("ONLY", "").split(","))]
    names = only or [DIGITS.stem, *(name for name, _ in engine_models())]
    print(machine())
    print(f"{'model':27} th    CPU ms " + " ".join(f"{d:>10}" for d in DEVICES) + "  choice")
    rows = []
    for threads in THREADS:
        for name in names:
            rows.append(in_process(name, threads))
            print(rows[-1], flush=True)
        print(f"{threads} threads: {summary([r for r in rows if r.threads == threads])}")
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
