"""Names in models that ONNX Runtime saved: those that it could not load again are changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ep_nnapi.preparation.ort_names import rename_generated
from ep_nnapi.sessions.cpu import session_of
from tests.preparation.fresh import apart, original


def products(path: Path, *names: str) -> Path:
    """Reshape by constants of those names, which are equal, then MatMul and Add."""
    nodes, tensors, last = [], [], "x"
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Reshape", [last, name], [f"r{i}"]))
        tensors.append(numpy_helper.from_array(np.array([2, 4, 4], np.int64), name))
        last = f"r{i}"
    weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    tensors += [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(weights[0], "b")]
    nodes += [
        helper.make_node("MatMul", [last, "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4, 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def rows(path: Path, *names: str) -> Path:
    """Unsqueeze and Squeeze by constants of those names, which are equal, then two Gathers."""
    make, nodes, last = helper.make_node, [], "x"
    tensors = [numpy_helper.from_array(np.array([0]), name) for name in names]
    for i, name in enumerate(names):
        nodes += [make("Unsqueeze", [last, name], [f"u{i}"]), make("Abs", [f"u{i}"], [f"a{i}"])]
        nodes.append(make("Squeeze", [f"a{i}", name], [f"s{i}"]))
        last = f"s{i}"
    tensors += [numpy_helper.from_array(np.array(k), f"row{k}") for k in (0, 1)]
    nodes += [make("Gather", [last, f"row{k}"], [f"g{k}"], axis=0) for k in (0, 1)]
    nodes.append(make("Sub", ["g0", "g1"], ["y"]))
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [2, 4])], [info("y", TensorProto.FLOAT, [4])]
    opsets = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def test_constants_of_a_split_get_other_names(tmp_path: Path) -> None:
    """With which onnxruntime 1.32 cannot load this model, as a graph network that is prepared."""
    path = rows(tmp_path / "a.onnx", "one", "squeeze_axes", "splits")
    feeds = {"x": np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)}
    want = original(onnx.load(rows(tmp_path / "b.onnx", "one", "two", "three")), feeds)
    rename_generated(path)
    names = {t.name for t in onnx.load(path).graph.initializer}
    assert {"one", "prepared_squeeze_axes", "prepared_splits"} <= names
    assert apart(original(onnx.load(path), feeds), want) == 0


def test_constants_that_onnx_runtime_named_get_other_names(tmp_path: Path) -> None:
    """With which onnxruntime 1.31 cannot load this model."""
    path = products(tmp_path / "a.onnx", "gemm_input_shape", "gemm_output_shape_token_3")
    feeds = {"x": np.random.default_rng(2).standard_normal((2, 4, 4)).astype(np.float32)}
    want = original(onnx.load(products(tmp_path / "b.onnx", "one", "two")), feeds)
    rename_generated(path)
    proto = onnx.load(path)
    names = {t.name for t in proto.graph.initializer}
    assert names == {"prepared_gemm_input_shape", "prepared_gemm_output_shape_token_3", "w", "b"}
    assert apart(original(proto, feeds), want) == 0


def test_names_of_an_earlier_optimization_are_taken(tmp_path: Path) -> None:
    path = products(tmp_path / "a.onnx", "prepared_gemm_input_shape", "gemm_input_shape")
    rename_generated(path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    assert {t.name.count("prepared_") for t in proto.graph.initializer[:2]} == {1, 2}


def test_other_models_are_left_as_they_are(tmp_path: Path) -> None:
    path = products(tmp_path / "a.onnx", "shape")
    before = path.stat()
    rename_generated(path)
    assert path.stat() == before
    session = session_of(str(path))
    assert session.get_inputs()[0].name == "x"
