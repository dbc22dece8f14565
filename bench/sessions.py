"""Time to create a session: chains of nodes, all of them taken or every other one left to the CPU.

Each chain alternates Add with a constant and Tanh. "taken" is one cluster of all nodes;
"alternating" excludes Tanh, so that every Add is a cluster of its own. Both take turns with a
session of the plain CPU provider; processor seconds of this process, of which the fastest round
counts. The exponent is the slope of the line fitted to the logarithms of nodes and seconds: 1 is
linear.

ONNX Runtime takes time of its own to replace each cluster by a fused node, which grows with the
cube of their number. The alternating sessions therefore plan and compile every cluster and claim
none; a second table has sessions that claim all, and how much of their time is ONNX Runtime's.

The device is nnapi-reference, which this package prepares itself. Device host-cpu adds the time in
which ONNX Runtime opens a session for each cluster.

`python -m bench sessions` prints the tables and writes build/sessions.json.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression
from time import process_time
from typing import TypeVar, Unpack

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.graph.graph import Graph
from ep_nnapi.options.table import OptionKeywords, changed, options_of_session
from ep_nnapi.ort import plugin
from ep_nnapi.ort.ep import Ep
from ep_nnapi.provider.provider import Provider

SIZES = (500, 2_000, 8_000, 32_000, 100_000)
CLAIMED = (125, 250, 500, 1_000)
ROUNDS = 5
"""Most sessions of each kind; fewer of chains that take long, one of the longest."""
NODE_MS, CLUSTER_MS = 0.2, 0.7  # at most, for each node taken and for each cluster of one node
T = TypeVar("T")
OUTPUT = Path("build/sessions.json")
DEVICE = "nnapi-reference"


@dataclass(frozen=True)
class Row:
    """Processor seconds of the sessions of one chain."""

    nodes: int
    cpu: float
    taken: float
    alternating: float

    def __str__(self) -> str:
        node, cluster = self.taken / self.nodes, self.alternating / (self.nodes // 2)
        return (
            f"{self.nodes:8,} {self.cpu:8.3f} {self.taken:8.3f} {self.alternating:14.3f}"
            f" {node * 1e3:8.3f} {cluster * 1e3:11.3f}"
            f" {self.taken / self.cpu:8.1f}x {self.alternating / self.cpu:14.1f}x"
        )


@dataclass(frozen=True)
class Claimed:
    """Processor seconds of a session that claims its clusters: planning, Compile, the rest."""

    clusters: int
    plan: float
    compile: float
    rest: float

    def __str__(self) -> str:
        return f"{self.clusters:8,} {self.plan:14.3f} {self.compile:8.3f} {self.rest:13.3f}"


class PlanOnly(Provider):
    """Plans and compiles, and claims nothing."""

    def plan(self, graph: Graph) -> tuple[()]:
        """Returns no clusters."""
        super().plan(graph)
        return ()


def chain(nodes: int) -> bytes:
    """A model of that many nodes, Add and Tanh in turn."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 8)) for name in "xy")
    names = ["x", *(f"v{i}" for i in range(1, nodes)), "y"]
    step = numpy_helper.from_array(np.linspace(0, 1, 8, dtype=np.float32), "step")
    steps = [
        helper.make_node("Tanh", [names[i]], [names[i + 1]], f"Tanh_{i}")
        if i % 2
        else helper.make_node("Add", [names[i], "step"], [names[i + 1]], f"Add_{i}")
        for i in range(nodes)
    ]
    graph = helper.make_graph(steps, "chain", [x], [y], [step])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def on_cpu(model: bytes) -> None:
    """Creates a session of the CPU provider alone."""
    onnxruntime.InferenceSession(model, _options(), providers=["CPUExecutionProvider"])


def on_nnapi(model: bytes, **options: Unpack[OptionKeywords]) -> None:
    """Creates a session with the NNAPI provider."""
    chosen = _options()
    ep_nnapi.append_execution_provider(chosen, **changed(options, device=DEVICE))
    onnxruntime.InferenceSession(model, chosen)


def plan_only(model: bytes, **options: Unpack[OptionKeywords]) -> None:
    """Creates a session with the NNAPI provider that claims nothing."""
    chosen = _options()
    ep_nnapi.append_execution_provider(chosen, **changed(options, device=DEVICE))
    opened = plugin.factory.open_provider
    plugin.factory.open_provider = lambda entries: PlanOnly(options_of_session(entries))
    try:
        onnxruntime.InferenceSession(model, chosen)
    finally:
        plugin.factory.open_provider = opened


def measured(nodes: int) -> Row:
    """The times of a chain."""
    model = chain(nodes)
    kinds: dict[str, Callable[[], None]] = {
        "cpu": lambda: on_cpu(model),
        "taken": lambda: on_nnapi(model),
        "alternating": lambda: plan_only(model, exclude="Tanh"),
    }
    rounds = [
        {name: _seconds(create) for name, create in kinds.items()}
        for _ in range(min(ROUNDS, max(1, SIZES[-1] // nodes)))
    ]
    return Row(nodes, **{name: min(found[name] for found in rounds) for name in kinds})


def claimed(clusters: int) -> Claimed:
    """The times of a session of that many clusters."""
    model = chain(2 * clusters)
    with _timed("get_capability", "compile") as spent:
        whole = _seconds(lambda: on_nnapi(model, exclude="Tanh"))
    plan, compilation = spent["get_capability"], spent["compile"]
    return Claimed(clusters, plan, compilation, whole - plan - compilation)


@contextmanager
def _timed(*names: str) -> Iterator[Mapping[str, float]]:
    """Processor seconds in these methods of Ep, inside the block."""
    spent = dict.fromkeys(names, 0.0)
    originals = {name: getattr(Ep, name) for name in names}

    def timer(name: str) -> Callable[..., object]:
        def method(*arguments: object) -> object:
            started = process_time()
            try:
                return originals[name](*arguments)
            finally:
                spent[name] += process_time() - started

        return method

    for name in names:
        setattr(Ep, name, timer(name))
    try:
        yield spent
    finally:
        for name, original in originals.items():
            setattr(Ep, name, original)


def main() -> None:
    """Prints a row for each size as soon as it is known, and the exponents."""
    on_nnapi(chain(10))  # imports are not counted
    print(
        f"{'nodes':>8} {'CPU s':>8} {'taken s':>8} {'alternating s':>14} {'ms/node':>8}"
        f" {'ms/cluster':>11} {'taken/CPU':>9} {'alternating/CPU':>15}"
    )
    rows = [_shown(measured(nodes)) for nodes in SIZES]
    powers = {name: _exponent(rows, name) for name in ("cpu", "taken", "alternating")}
    print("exponent " + " ".join(f"{name} {power:.2f}" for name, power in powers.items()))
    print(f"(at most {NODE_MS} ms for each node taken and {CLUSTER_MS} ms for each cluster)\n")
    print(f"{'clusters':>8} {'GetCapability s':>14} {'Compile s':>8} {'ONNX Runtime s':>13}")
    fused = [_shown(claimed(clusters)) for clusters in CLAIMED]
    OUTPUT.parent.mkdir(exist_ok=True)
    found = {"rows": [asdict(r) for r in rows], "exponents": powers}
    OUTPUT.write_text(json.dumps({**found, "claimed": [asdict(f) for f in fused]}, indent=1))


def _shown(row: T) -> T:
    print(row, flush=True)
    return row


def _exponent(rows: Sequence[Row], name: str) -> float:
    """The power of the number of nodes that these seconds grow with."""
    seconds = [math.log(asdict(row)[name]) for row in rows]
    return linear_regression([math.log(row.nodes) for row in rows], seconds).slope


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return options


def _seconds(create: Callable[[], None]) -> float:
    started = process_time()
    create()
    return process_time() - started


if __name__ == "__main__":
    main()
