"""INT64 values of a model whose elements fit INT32, from ranges of inputs that the user states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from ep_nnapi.diagnostics.read_graphs import read_graphs
from ep_nnapi.sizes.int64_ranges import values_fitting_int32

Ranges: TypeAlias = Mapping[str, tuple[int, int]]
"""Least and greatest element of inputs, by name."""


def values_that_fit(model: Path, ranges: Ranges) -> set[str]:
    """Returns the names of the model's INT64 values whose elements all fit INT32."""
    found: set[str] = set()
    read_graphs(str(model), lambda graph: found.update(values_fitting_int32(graph, ranges)))
    return found
