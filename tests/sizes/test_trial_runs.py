"""Sizes that are assumed for data-dependent shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.graph.graph import Graph
from ep_nnapi.sizes import trial_runs
from ep_nnapi.sizes.trial_sizes import sample_graphs
from tests.onnx_graph import graph_of


def compressed(*, width: int | None = None) -> Graph:
    """x [10, 8] -> Compress -> Relu -> y, and MatMul of that with `width` rows of weights."""
    nodes = [
        helper.make_node("Compress", ["x", "m"], ["a"], axis=1),
        helper.make_node("Relu", ["a"], ["b"]),
    ]
    if width is not None:
        nodes.append(helper.make_node("MatMul", ["b", "w"], ["c"]))
    weights = numpy_helper.from_array(np.zeros((width or 1, 4), np.float32), "w")
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [10, 8]),
        helper.make_tensor_value_info("m", TensorProto.BOOL, [8]),
    ]
    y = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [y], [weights])
    return graph_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def read(graph: Graph, index: int) -> tuple[object, ...] | None:
    """The sizes of the first input of a node."""
    value = graph.nodes[index].inputs[0]
    assert value is not None
    return value.dims


def test_two_samples_are_made_of_data_dependent_shapes() -> None:
    seen = sample_graphs(compressed(), {})
    assert [read(v, 1) for v in seen] == [(10, 64), (10, 96)]


def test_who_computes_it_has_no_sizes() -> None:
    for view in sample_graphs(compressed(), {}):
        (output,) = view.nodes[0].outputs
        assert output is not None
        assert output.dims is not None
        assert not isinstance(output.dims[1], int)


@pytest.mark.parametrize(("width", "size"), [(64, 64), (224, 224)])
def test_sizes_are_looked_for_that_go_with_what_follows(width: int, size: int) -> None:
    assert {read(v, 2) for v in sample_graphs(compressed(width=width), {})} == {(10, size)}


def test_nothing_is_assumed_where_only_known_sizes_are_taken() -> None:
    (view,) = sample_graphs(compressed(), {}, assume=False)
    dims = read(view, 1)
    assert dims is not None
    assert not isinstance(dims[1], int)


def scaled(rows: int) -> bytes:
    """Scaler of [rows, 4], whose output has no rank, and Relu."""
    scaling = {"offset": [0.5] * 4, "scale": [2.0] * 4}
    nodes = [
        helper.make_node("Scaler", ["x"], ["a"], "scaler", None, "ai.onnx.ml", **scaling),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return made.SerializeToString()


@pytest.mark.parametrize(("limit", "left"), [(128, {"scaler"}), (127, {"scaler", "relu"})])
def test_a_trial_run_has_a_limit(
    limit: int, left: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """[8, 4] floats have 128 bytes."""
    monkeypatch.setattr(trial_runs, "_MAX_INPUT_BYTES", limit)
    report = ep_nnapi.check(scaled(8))
    assert {r.node for r in report.rejections} == left
    for refused in report.rejections:
        if refused.node == "relu":
            assert "a data-dependent shape, produced by scaler" in refused.detail


@pytest.mark.parametrize(
    ("op_type", "inputs", "runs"),
    [("Max", ["x", ""], False), ("Max", ["x", "x"], True), ("Clip", ["x", "", "m"], True)],
    ids=["variadic", "complete", "optional"],
)
def test_trial_runs_omit_optional_inputs_alone(
    op_type: str, inputs: list[str], runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime 1.32 ends the process in its Max of an omitted number."""
    ran = []
    monkeypatch.setattr(trial_runs, "_trial_run", lambda *_: ran.append(1) or ((4,),))
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [4])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)
    most = numpy_helper.from_array(np.array(1.0), "m")
    node = helper.make_node(op_type, inputs, ["y"])
    made = helper.make_model(
        helper.make_graph([node], "g", [x], [y], [most]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    (one,) = graph_of(made).nodes
    unknown = replace(one, outputs=tuple(v and replace(v, dims=None) for v in one.outputs))
    (found,) = trial_runs.Assumption(4, {"": 17})(unknown)
    assert found.dims == ((4,) if runs else None)
    assert bool(ran) == runs
