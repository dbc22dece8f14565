"""A provider that takes what a test names and computes it with numpy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.lowering.border import Allocate
from ep_nnapi.nnapi.array import Array
from ep_nnapi.provider.cluster_record import Listener
from ep_nnapi.report.report import Notice

OPERATORS: Mapping[str, Callable[..., Array]] = {
    "Abs": np.abs,
    "Add": np.add,
    "MatMul": np.matmul,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "Relu": lambda x: np.maximum(x, 0),
}


@dataclass
class Runner:
    """Evaluates nodes in order; remembers the arrays of its last call."""

    nodes: Sequence[GraphNode]
    constants: Mapping[str, Array]
    names: tuple[tuple[str, ...], tuple[str, ...]]
    inputs: Sequence[Array] = ()
    outputs: Sequence[Array] = ()

    def __call__(
        self, inputs: Sequence[Array], allocate: Allocate, stop: Callable[[], None] | None = None
    ) -> None:
        known = dict(self.constants) | dict(zip(self.names[0], inputs, strict=True))
        for node in self.nodes:
            arguments = [known[value.name] for value in node.inputs]
            known[node.outputs[0].name] = OPERATORS[node.op_type](*arguments)
        outputs = [allocate(i, known[name].shape) for i, name in enumerate(self.names[1])]
        for output, name in zip(outputs, self.names[1], strict=True):
            output[...] = known[name]
        self.inputs, self.outputs = inputs, outputs


@dataclass
class Cluster:
    nodes: Sequence[GraphNode]
    constants: Mapping[str, Array]
    runners: list[Runner]

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(i for node in self.nodes for i in node.members)

    def bind(self, input_names: Sequence[str], output_names: Sequence[str]) -> Runner:
        names = tuple(input_names), tuple(output_names)
        self.runners.append(Runner(self.nodes, self.constants, names))
        return self.runners[-1]


@dataclass
class FakeProvider:
    """Takes every node whose operator is in `take`: alone, or with `together` as one cluster."""

    take: Sequence[str]
    together: bool = False
    entries: Mapping[str, str] = field(default_factory=dict)
    graphs: list[Graph] = field(default_factory=list)
    runners: list[Runner] = field(default_factory=list)
    error: Exception | None = None
    line: Notice = field(default_factory=lambda: Notice("a fake provider"))
    listeners: list[Listener] = field(default_factory=list)
    for_files: bool = False

    def notice(self) -> Notice:
        return self.line

    def begin(self, running: str) -> None:
        pass

    def plan_for_files(self) -> None:
        self.for_files = True

    def end(self) -> None:
        pass

    def open(self, entries: Mapping[str, str]) -> "FakeProvider":
        self.entries = entries
        return self

    def plan(self, graph: Graph) -> Sequence[Cluster]:
        self.graphs.append(graph)
        taken = [n for n in graph.nodes if n.op_type in self.take and not n.claimed_by]
        groups = [taken] if self.together and taken else [[node] for node in taken]
        return [Cluster(group, _constants(group), self.runners) for group in groups]


def _constants(nodes: Sequence[GraphNode]) -> Mapping[str, Array]:
    """Copies: what a constant loads is gone when plan() has returned."""
    values = (value for node in nodes for value in node.inputs)
    return {v.name: v.constant.array.copy() for v in values if v is not None and v.constant}
