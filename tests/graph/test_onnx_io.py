"""Nodes converted to an ONNX model compute what the original model computes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ep_nnapi.graph import onnx_io, ort_io
from ep_nnapi.graph.graph import GraphNode
from ep_nnapi.graph.value import DType, Value
from ep_nnapi.sessions.cpu import exact_options, session_of
from tests.onnx_graph import graph_of, parsed
from tests.oracle import f32, graph

CASE = graph(
    [
        onnx.helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Clip", ["a", "", "high"], ["y0"], "clip"),
    ],
    {
        "x": f32(1, 2, 5, 5),
        "w": np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 2, 3, 3),
        "high": np.array(0.5, np.float32),
    },
)


def test_the_model_computes_the_same() -> None:
    whole = graph_of(CASE.model)
    model = onnx_io.model_of(whole.nodes, whole.inputs, whole.outputs, whole.opsets)
    onnx.checker.check_model(model, full_check=True)
    feeds = CASE.draw()
    (found,) = ReferenceEvaluator(model).run(None, feeds)
    (wanted,) = CASE.evaluate(feeds)
    np.testing.assert_array_equal(found, wanted)
    assert {t.name for t in model.graph.initializer} == {"w", "high"}


def test_without_shapes_any_size_is_allowed() -> None:
    whole = graph_of(CASE.model)
    inputs, outputs = onnx_io.without_shapes(whole.inputs), onnx_io.without_shapes(whole.outputs)
    model = onnx_io.model_of(whole.nodes, inputs, outputs, whole.opsets)
    assert not model.graph.input[0].type.tensor_type.HasField("shape")
    (found,) = ReferenceEvaluator(model).run(None, {"x": np.ones((2, 2, 3, 4), np.float32)})
    assert found.shape == (2, 2, 3, 4)


def test_an_empty_list_and_an_omitted_input() -> None:
    """The type of an empty list is unknown, so it is omitted; an omitted input has no name."""
    x, y = (Value(name, DType.FLOAT, (2,)) for name in "xy")
    node = GraphNode(0, "n", "Clip", "", 13, (x, None, x), (y,), {"list": (), "one": 1})
    proto = onnx_io.node_of(node)
    assert [a.name for a in proto.attribute] == ["one"]
    assert list(proto.input) == ["x", "", "x"]


def test_nodes_of_one_name() -> None:
    """ONNX Runtime loads no model with two; an unnamed node goes by its output, as another may."""
    x, y, z = (Value(name, DType.FLOAT, (2,)) for name in "xyz")
    nodes = [
        GraphNode(i, "y", "Abs", "", 13, (a,), (b,), {})
        for i, (a, b) in enumerate(((x, y), (y, z)))
    ]
    session_of(onnx_io.model_of(nodes, [x], [z], {"": 13}).SerializeToString())


# ONNX model files: subgraphs, edits in place, temporary files


def branching() -> onnx.ModelProto:
    """If with a branch that has an If of its own."""
    other = "else_branch = other () => (float[2] y) { y = Abs (x) }"
    inner = f"y = If (c) <then_branch = leaf () => (float[2] y) {{ y = Neg (x) }}, {other}>"
    outer = f"y = If (c) <then_branch = nested () => (float[2] y) {{ {inner} }}, {other}>"
    model = parsed(f"(float[2] x, bool c) => (float[2] y) {{ {outer} }}")
    model.graph.name = "main"
    return model


def test_subgraphs_of_subgraphs_are_found() -> None:
    names = [g.name for g in onnx_io.graphs(branching().graph)]
    assert sorted(names) == ["leaf", "main", "nested", "other", "other"]
    assert names[0] == "main"


def test_an_edit_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    with onnx_io.edited(path) as proto:
        proto.graph.name = "renamed"
    assert onnx.load(str(path)).graph.name == "renamed"


def test_an_edit_that_raises_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    before = path.read_bytes()

    def fail() -> None:
        with onnx_io.edited(path) as proto:
            proto.graph.name = "renamed"
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert path.read_bytes() == before


def test_names_are_found_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(branching(), str(path))
    assert onnx_io.mentions(path, b"nested")
    assert not onnx_io.mentions(path, b"absent")
    path.write_bytes(b"")  # an empty file cannot be mapped
    assert not onnx_io.mentions(path, b"nested")


def test_a_temporary_file_is_deleted_also_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with onnx_io.temporary(tmp_path / "m.ort", ".tmp") as path:
            path.write_bytes(b"x")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []
    with onnx_io.temporary(tmp_path / "m.ort", ".tmp"):
        pass  # a file that was never written


# Graphs of ORT-format files, read from a file that ONNX Runtime writes


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


@pytest.mark.parametrize("places", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_initializers_become_dense(places: np.ndarray) -> None:
    model = parsed("(float[2,3] x) => (float[2,3] y) { y = Add (x, w) }")
    values = numpy_helper.from_array(np.array([4, -5], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places), (2, 3))
    model.graph.sparse_initializer.append(sparse)
    onnx_io.make_dense(model.graph)
    assert not model.graph.sparse_initializer
    (dense,) = model.graph.initializer
    assert (dense.name, numpy_helper.to_array(dense).tolist()) == ("w", [[0, 4, 0], [0, 0, -5]])


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 3), (2, 3)),
        ((), ()),
        ((2, 0), (2, 0)),
        ((2, "n"), None),
        ((2, None), None),
        (None, None),
    ],
)
def test_sizes_are_known_if_all_are_numbers(shape: object, sizes: object) -> None:
    """A tensor of unknown rank is no scalar."""
    assert (
        onnx_io.static_sizes(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape))
        == sizes
    )


@pytest.mark.parametrize(
    ("opsets", "version"),
    [({"": 13}, 13), ({"com.microsoft": 1, "ai.onnx": 7}, 7), ({"com.microsoft": 2}, 1)],
)
def test_the_opset_is_that_of_onnx_itself(opsets: dict[str, int], version: int) -> None:
    model = onnx.ModelProto(opset_import=[helper.make_opsetid(*each) for each in opsets.items()])
    assert onnx_io.opset_of(model) == version


def test_a_field_is_replaced_by_a_part_of_itself() -> None:
    made = [helper.make_node("Neg", [n], [n * 2], n) for n in "abc"]
    graph = onnx.GraphProto(node=made)
    onnx_io.replace_all(graph.node, [n for n in reversed(graph.node) if n.name != "b"])
    assert [n.name for n in graph.node] == ["c", "a"]


@pytest.mark.parametrize("large", [False, True])
def test_large_weights_are_saved_beside_the_model(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ep_nnapi.graph.onnx_io.EXTERNAL_DATA_THRESHOLD", 0 if large else 1 << 20)
    weights = numpy_helper.from_array(np.arange(1024, dtype=np.float32), "w")
    graph = helper.make_graph([], "g", [], [], [weights])
    onnx_io.save(helper.make_model(graph), tmp_path / "m.onnx")
    assert (tmp_path / "m.weights").exists() is large
    (found,) = onnx.load(tmp_path / "m.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(found), np.arange(1024))
