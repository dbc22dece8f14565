"""Sessions whose provider claims nothing and copies what ONNX Runtime shows it."""

from collections.abc import Mapping

import numpy as np

from ep_nnapi.graph.graph import Graph, GraphNode
from ep_nnapi.graph.value import Constant
from ep_nnapi.nnapi.errors import Reject
from ep_nnapi.provider.cluster_record import Listener
from ep_nnapi.report.report import Notice


class Look:
    """A provider that claims nothing and copies what it is shown."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.listeners: list[Listener] = []
        self.graphs: dict[str, Graph] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.refusals: dict[str, str] = {}

    def open(self, entries: Mapping[str, str]) -> "Look":
        return self

    def notice(self) -> Notice:
        return Notice("a provider that looks")

    def begin(self, running: str) -> None:
        pass

    def end(self) -> None:
        pass

    def plan(self, seen: Graph) -> list:
        self.graphs[seen.key] = seen
        for n in seen.nodes:
            for value in n.inputs:
                if value is not None and value.constant:
                    self.load(value.name, value.constant)
        return []

    def load(self, name: str, constant: Constant) -> None:
        try:
            self.constants[name] = constant.load().copy()
        except Reject as refusal:
            self.refusals[name] = str(refusal)


def only(seen: Look, op_type: str) -> GraphNode:
    (found,) = [n for n in seen.graphs[""].nodes if n.op_type == op_type]
    return found
