"""INT64 values of a model whose elements fit INT32, from ranges of inputs that the user states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import onnxruntime

from ep_nnapi.diagnostics.check import given_to_session, open_session, quiet_options
from ep_nnapi.graph.graph import Graph
from ep_nnapi.options import Options
from ep_nnapi.ort.names import EP_NAME
from ep_nnapi.ort.session import register
from ep_nnapi.provider.planner import Cluster
from ep_nnapi.provider.provider import Provider
from ep_nnapi.sessions.cpu import CPU
from ep_nnapi.sizes.int64_ranges import values_fitting_int32

Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""Least and greatest element of inputs, by name."""


class _Reader(Provider):
    """A provider that takes nothing and collects the names of values that fit."""

    def __init__(self, ranges: Ranges) -> None:
        super().__init__(Options())
        self.found: set[str] = set()
        self._ranges = ranges

    def plan(self, graph: Graph) -> tuple[Cluster, ...]:
        """Reads the graph, whose constants can be read only now; returns no clusters."""
        self.found |= values_fitting_int32(graph, self._ranges)
        return ()


def values_that_fit(model: Path, ranges: Ranges) -> set[str]:
    """Returns the names of the model's INT64 values whose elements all fit INT32."""
    register()
    options = quiet_options()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reader = _Reader(ranges)
    with given_to_session(reader) as (strings, found):
        open_session(str(model), options, [(EP_NAME, strings), CPU])
        found()
    return reader.found
