"""The graphs of a model: the inner ones, then the main one."""

from __future__ import annotations

import pytest

from ep_nnapi.diagnostics.read_graphs import read_graphs
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import ModelError
from tests.ort.models import if_abs_add


def test_every_graph_is_read() -> None:
    seen: list[Graph] = []
    read_graphs(if_abs_add(), seen.append)
    assert [len(graph.nodes) for graph in sorted(seen, key=lambda g: g.key)] == [1, 1, 2]
    assert [bool(graph.key) for graph in seen] == [True, True, False]


def test_a_model_that_cannot_be_loaded_is_said_to_be() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime cannot load it"):
        read_graphs(b"no model", lambda _: None)
