"""The graphs of a model, as ONNX Runtime shows them to a provider."""

from __future__ import annotations

from collections.abc import Callable

import onnxruntime

from ep_nnapi.diagnostics.check import given_to_session, open_session, quiet_options
from ep_nnapi.graph.graph import Graph
from ep_nnapi.options.table import Options
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.planner import Cluster
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import CPU


class _Reader(Provider):
    """A provider that takes nothing."""

    def __init__(self, read: Callable[[Graph], None]) -> None:
        super().__init__(Options())
        self._read = read

    def plan(self, graph: Graph) -> tuple[Cluster, ...]:
        """Hands over the graph; returns no clusters."""
        self._read(graph)
        return ()


def read_graphs(model: str | bytes, read: Callable[[Graph], None]) -> None:
    """Calls `read` with each graph of the model, unoptimized, while its constants can be read.

    Raises ModelError if the model cannot be loaded.
    """
    register()
    options = quiet_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with given_to_session(_Reader(read)) as (strings, found):
        open_session(model, options, [(EP_NAME, strings), CPU])
        found()
