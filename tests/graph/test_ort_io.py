"""Graphs of ORT-format files, read from a file that ONNX Runtime writes."""

from pathlib import Path

import pytest

from ep_nnapi.graph import ort_io
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.graph.test_onnx_io import branching


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "m.ort"
    options = exact_options()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    model = branching()
    model.opset_import[0].version = 17
    model.ir_version = 8
    session_of(model.SerializeToString(), options)
    return path


def test_operators_of_the_main_graph(saved: Path) -> None:
    assert ort_io.operators(saved) == {"If"}


def test_nodes_outputs_and_subgraphs(saved: Path) -> None:
    with ort_io.opened(saved) as graph:
        assert ort_io.outputs(graph) == ("y",)
        (node,) = ort_io.nodes(graph)
        assert ort_io.outputs(node) == ("y",)
        inner = dict(ort_io.inner_graphs(node))
        assert sorted(inner) == ["else_branch", "then_branch"]
        (nested,) = ort_io.nodes(inner["then_branch"])
        assert ort_io.text(nested.OpType()) == "If"
        assert len(list(ort_io.inner_graphs(nested))) == 2


def test_a_name_that_is_not_utf8_survives() -> None:
    name = ort_io.text(b"a\xff")
    assert name.encode("utf-8", "surrogateescape") == b"a\xff"
