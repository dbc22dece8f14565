"""ONNX model files: subgraphs, edits in place, temporary files."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from ep_nnapi.graph.onnx_io import edited, graphs, mentions, temporary


def branching() -> onnx.ModelProto:
    """If with a branch that has an If of its own."""

    def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
        return helper.make_graph(list(nodes), name, [], [out])

    leaf = branch("leaf", helper.make_node("Neg", ["x"], ["y"]))
    other = branch("other", helper.make_node("Abs", ["x"], ["y"]))
    inner = helper.make_node("If", ["c"], ["y"], then_branch=leaf, else_branch=other)
    outer = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("nested", inner), else_branch=other
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    return helper.make_model(helper.make_graph([outer], "main", [x, c], [y]))


def test_subgraphs_of_subgraphs_are_found() -> None:
    names = [g.name for g in graphs(branching().graph)]
    assert sorted(names) == ["leaf", "main", "nested", "other", "other"]
    assert names[0] == "main"


def test_an_edit_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    with edited(path) as proto:
        proto.graph.name = "renamed"
    assert onnx.load(str(path)).graph.name == "renamed"


def test_an_edit_that_raises_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    before = path.read_bytes()

    def fail() -> None:
        with edited(path) as proto:
            proto.graph.name = "renamed"
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert path.read_bytes() == before


def test_names_are_found_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    assert mentions(path, b"nested")
    assert not mentions(path, b"absent")
    path.write_bytes(b"")  # an empty file cannot be mapped
    assert not mentions(path, b"nested")


def test_a_temporary_file_is_deleted_also_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with temporary(tmp_path / "m.ort", ".tmp") as path:
            path.write_bytes(b"x")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with temporary(tmp_path / "m.ort", ".tmp"):
        pass  # a file that was never written
