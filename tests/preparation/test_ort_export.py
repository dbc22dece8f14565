"""Models saved by ONNX Runtime: functions inlined, constants renamed, recordings replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ep_nnapi
from ep_nnapi.preparation.job import job_of
from ep_nnapi.preparation.ort_export import save_ort
from tests.preparation.fresh import apart, original, run


def hard_swish(path: Path) -> Path:
    """A function of ONNX that NNAPI has as one operation, and the CPU provider only in parts."""
    nodes = [
        helper.make_node("HardSwish", ["x"], ["h"], "swish"),
        helper.make_node("Neg", ["h"], ["y"], "neg"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.parametrize("form", ["ort", "onnx", "context"])
def test_functions_are_inlined_where_the_cpu_cannot_run_them(form: str, tmp_path: Path) -> None:
    source = hard_swish(tmp_path / "a.onnx")
    feeds = {"x": np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)}
    want = original(onnx.load(source), feeds)
    (found,) = ep_nnapi.prepare(source, tmp_path / "out", format=form, verify=False).models
    path = tmp_path / "out" / found.output
    assert found.report is not None
    assert found.report["taken"] == found.report["nodes"]
    assert apart(run(path, feeds, {}), want) <= 1e-6  # x (x + 3) / 6 in float32, in other parts
    if form != "context":
        assert apart(run(path, feeds, None), want) <= 1e-6
    assert not [p for p in path.parent.iterdir() if "inlined" in p.name]


def test_a_function_is_kept_whole_where_nothing_is_saved_for_the_cpu(tmp_path: Path) -> None:
    report = ep_nnapi.check(hard_swish(tmp_path / "a.onnx"))
    assert [c.nodes for c in report.clusters] == [("swish", "neg")]


def test_what_is_no_model_is_refused_after_both_ways(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"nonsense")
    with pytest.raises(ep_nnapi.ModelError, match=r"a\.onnx: ONNX Runtime cannot load it"):
        save_ort(tmp_path / "a.onnx", tmp_path / "a.ort", job_of({}))
    assert [p.name for p in tmp_path.iterdir()] == ["a.onnx"]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_half_precision_is_compiled_where_nnapi_has_none(level: int, tmp_path: Path) -> None:
    """At the levels below 3 its clusters are of float32, which ONNX Runtime casts constants to."""
    weights = np.random.default_rng(3).standard_normal((3, 2, 3, 3)).astype(np.float16)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["y"], "relu"),
    ]
    info, constants = helper.make_tensor_value_info, [numpy_helper.from_array(weights, "w")]
    x, y = (
        info("x", TensorProto.FLOAT16, [1, 2, 4, 4]),
        info("y", TensorProto.FLOAT16, [1, 3, 2, 2]),
    )
    graph, opsets = (
        helper.make_graph(nodes, "g", [x], [y], constants),
        [helper.make_opsetid("", 17)],
    )
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "a.onnx")
    given = {"format": "context", "feature_level": level}
    (found,) = ep_nnapi.prepare(
        tmp_path / "a.onnx", tmp_path / "out", tolerance=0.01, **given
    ).models
    assert found.error is None  # 0.01: 18 products in float16 or float32, rounded to float16
    assert found.report is not None
    assert {"conv", "relu"} <= {n for c in found.report["clusters"] for n in c["nodes"]}


def constant_or_not(path: Path) -> Path:
    """A branch of If that is a constant, which ONNX Runtime keeps as a graph without nodes."""
    info = helper.make_tensor_value_info
    made = numpy_helper.from_array(np.array([2, 3], np.float32), "k")
    then = helper.make_graph(
        [helper.make_node("Constant", [], ["k"], value=made)],
        "then",
        [],
        [info("k", TensorProto.FLOAT, [2])],
    )
    other = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])], "else", [], [info("r", TensorProto.FLOAT, [2])]
    )
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    ends = info("x", TensorProto.FLOAT, [2]), info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([chosen], "g", [info("c", TensorProto.BOOL, []), ends[0]], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.parametrize("form", ["onnx", "context"])
@pytest.mark.parametrize("chosen", [True, False])
def test_a_branch_that_is_a_constant_is_kept(form: str, chosen: bool, tmp_path: Path) -> None:
    source = constant_or_not(tmp_path / "a.onnx")
    (found,) = ep_nnapi.prepare(source, tmp_path / "out", format=form).models
    feeds = {"x": np.array([-1, 1], np.float32), "c": np.array(chosen)}
    got = run(tmp_path / "out" / found.output, feeds, {})
    assert got["y"].tolist() == ([2, 3] if chosen else [0, 1])


@pytest.mark.parametrize("form", ["ort", "onnx"])
def test_a_model_that_only_holds_a_constant(form: str, tmp_path: Path) -> None:
    made = numpy_helper.from_array(np.array([2, 3], np.float32), "y")
    nodes = [helper.make_node("Constant", [], ["y"], value=made)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
    graph, opsets = helper.make_graph(nodes, "g", [], outputs), [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "a.onnx")
    (found,) = ep_nnapi.prepare(tmp_path / "a.onnx", tmp_path / "out", format=form).models
    assert run(tmp_path / "out" / found.output, {}, None)["y"].tolist() == [2, 3]
