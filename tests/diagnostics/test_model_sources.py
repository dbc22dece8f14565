"""Models and inputs of Python callers: models in memory, arrays; and those that are refused."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.check import check_excluded, with_sources
from ep_nnapi.diagnostics.session_runs import read_graphs, values_that_fit
from ep_nnapi.errors import Rejection, SourceLine
from ep_nnapi.graph.graph import Graph
from ep_nnapi.nnapi.errors import ModelError, OptionError, Reason
from ep_nnapi.options.table import Options, parse
from ep_nnapi.preparation.job import Level
from ep_nnapi.preparation.ort_export import checked_at
from ep_nnapi.report.report import ClusterReport, Report
from tests.cli.command import DIGITS
from tests.html_report.models import named
from tests.onnx_graph import parsed
from tests.ort.models import if_abs_add
from tests.rewriting.test_int64 import FLOAT, INT64, MASK, model_of
from tests.source_lines import recorded


def subtraction() -> onnx.ModelProto:
    """y = a - b, whose inputs are not to be mistaken for one another."""
    return parsed("(float[2] a, float[2] b) => (float[2] y) { [sub] y = Sub (a, b) }", 21)


MODEL = subtraction()
A, B = np.array([5, 7], np.float32), np.array([1, 2], np.float32)


def forms(folder: Path) -> dict[str, object]:
    path = folder / "m.onnx"
    onnx.save(MODEL, path)
    data = path.read_bytes()
    return {
        "path": path,
        "text": str(path),
        "bytes": data,
        "bytearray": bytearray(data),
        "proto": MODEL,
        "program": SimpleNamespace(model_proto=MODEL),  # as torch's ONNXProgram has it
    }


FORMS = ["path", "text", "bytes", "bytearray", "proto", "program"]


@pytest.mark.parametrize("form", FORMS)
def test_models_in_every_form(form: str, tmp_path: Path):
    model = forms(tmp_path)[form]
    assert ep_nnapi.check(model).taken == 1
    (outputs,) = ep_nnapi.run(model, [A, B]).outputs
    assert outputs["y"].tolist() == [4, 5]
    done = ep_nnapi.prepare(model, tmp_path / "out", inputs={"a": A, "b": B})
    assert not done.failed
    name = "m.ort" if form in ("path", "text") else "model.ort"
    assert ep_nnapi.check((tmp_path / "out" / name).read_bytes()).taken == 1


def test_an_ort_model_in_memory_is_prepared_too(tmp_path: Path):
    ep_nnapi.prepare(MODEL, tmp_path / "a.ort")
    done = ep_nnapi.prepare((tmp_path / "a.ort").read_bytes(), tmp_path / "b.onnx")
    assert not done.failed
    assert ep_nnapi.check(tmp_path / "b.onnx").taken == 1


@pytest.mark.parametrize("call", ["check", "run"])
@pytest.mark.parametrize(
    ("model", "called"),
    [(3, "int"), (None, "NoneType"), ([b"x"], "list"), (object, "type")],
    ids=str,
)
def test_what_is_no_model_is_named(call: str, model: object, called: str):
    with pytest.raises(ep_nnapi.ModelError) as refused:
        getattr(ep_nnapi, call)(model)
    says = "path, bytes, an onnx.ModelProto or an ONNXProgram of torch.onnx.export"
    assert str(refused.value) == f"the model is of type {called}; it must be a {says}"


def test_what_is_no_model_is_not_prepared(tmp_path: Path):
    with pytest.raises(ep_nnapi.ModelError, match="the model is of type int; it must be a path"):
        ep_nnapi.prepare(3, tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        {"a": A, "b": B},
        {"b": B, "a": A},
        [A, B],
        (A, B),
        {"a": [5.0, 7.0], "b": (1, 2)},
        {"a": A.astype(np.float64), "b": B.astype(np.int64)},
    ],
    ids=["names", "other-order", "list", "tuple", "numbers", "types"],
)
def test_inputs_as_arrays(given: object):
    (outputs,) = ep_nnapi.run(MODEL, given).outputs
    assert outputs["y"].tolist() == [4, 5]


def test_arrays_without_names_in_a_file(tmp_path: Path):
    np.savez(tmp_path / "x.npz", A, B)
    (outputs,) = ep_nnapi.run(MODEL, [str(tmp_path / "x.npz")]).outputs
    assert outputs["y"].tolist() == [4, 5]


def test_one_array_for_the_only_input_and_its_rows_as_runs():
    images = np.load(Path(DIGITS).parent / "digits" / "samples.npz")["images"]
    assert len(ep_nnapi.run(DIGITS, images[:1]).outputs) == 1
    assert len(ep_nnapi.run(DIGITS, images[:3]).outputs) == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (3, "inputs are of type int; they must be paths, an array, a dictionary "),
        (iter([A]), "inputs are of type list_iterator; they must be"),
        ({"a": A}, "input b is not given"),
        ({"a": A, "c": B}, "the model has no input 'c'; its inputs are a, b"),
        ([A], "1 inputs are given; the model's are a, b"),
        ([A, object()], "input 1 is of type object, which is no array"),
        ({"a": A, "b": "x"}, "input b is of type str, which is no array"),
        ({"a": A, "b": [[1], [2, 3]]}, "input b is no array: "),
        ([A, np.ones((3, 3))], r"input b has shape \[3, 3\]; the model takes \[2\]"),
    ],
    ids=["number", "iterator", "missing", "unknown", "few", "object", "text", "ragged", "shape"],
)
def test_inputs_that_cannot_be(given: object, says: str):
    with pytest.raises(ep_nnapi.OptionError, match=says):
        ep_nnapi.run(MODEL, given)


def test_ops_are_the_operators_that_can_be_taken():
    found = {(o.domain, o.op_type, o.since): o for o in ep_nnapi.ops()}
    softmax = found["", "Softmax", 13]
    assert "SOFTMAX" in softmax.operations
    assert softmax.level == 1
    assert "FLOAT32" in softmax.types
    with pytest.raises(dataclasses.FrozenInstanceError):
        softmax.level = 2  # type: ignore[misc]


def test_devices_are_those_of_the_runtime():
    (device,) = (d for d in ep_nnapi.devices() if d.name == "nnapi-reference")
    assert (device.type.name, device.feature_level) == ("CPU", 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.name = "x"  # type: ignore[misc]


# Reports name the source lines that the model records: in check, run and at every level

FILE = "/home/me/net.py"
REPORT_SOURCES_MODEL = recorded(named(""), "layers.0", FILE)
LINE = SourceLine("layers.0", FILE, 12, "y = self.act(self.conv(x))")


def sources(report: Report) -> list[SourceLine | None]:
    return [r.source for r in report.rejections]


def test_check_and_run_name_the_line():
    assert sources(ep_nnapi.check(REPORT_SOURCES_MODEL)) == [LINE]
    assert sources(ep_nnapi.run(REPORT_SOURCES_MODEL).report) == [LINE]


def test_nodes_that_nnapi_takes_have_lines_too():
    (graph,) = ep_nnapi.check(REPORT_SOURCES_MODEL).graphs
    assert [n.source for n in graph.outline] == [LINE, LINE]
    assert sources(ep_nnapi.check(REPORT_SOURCES_MODEL)) == [r.source for r in graph.rejections]


@pytest.mark.parametrize("level", ["basic", "nnapi-aware"])
def test_a_saved_model_has_the_lines_of_the_original(level: str, tmp_path: Path):
    onnx.save(REPORT_SOURCES_MODEL, tmp_path / "m.onnx")
    assert sources(checked_at(tmp_path / "m.onnx", Level(level), parse({}))) == [LINE]


def test_a_model_without_metadata_stays_as_it_is():
    plain = named("")
    report = ep_nnapi.check(plain)
    assert with_sources(report, plain.SerializeToString()) is report
    assert sources(report) == [None]


# The graphs of a model: the inner ones, then the main one


def test_every_graph_is_read() -> None:
    seen: list[Graph] = []
    read_graphs(if_abs_add(), seen.append)
    assert [len(graph.nodes) for graph in sorted(seen, key=lambda g: g.key)] == [1, 1, 2]
    assert [bool(graph.key) for graph in seen] == [True, True, False]


def test_a_model_that_cannot_be_loaded_is_said_to_be() -> None:
    with pytest.raises(ModelError, match="ONNX Runtime cannot load it"):
        read_graphs(b"no model", lambda _: None)


# INT64 values that fit INT32, as a session shows the graph


def test_values_follow_from_the_ranges_of_inputs(tmp_path: Path):
    """One less an element of INT32 may be past INT32; less an element of a mask it is not."""
    path = tmp_path / "model.onnx"
    constants = {"axis": np.array([1]), "one": np.array(1)}
    onnx.save(model_of(MASK, {"m": INT64}, {"y": FLOAT}, **constants), path)
    known = {"axis", "one"}
    assert values_that_fit(path, {}) == known
    assert values_that_fit(path, {"m": (-(2**31), 2**31 - 1)}) == known | {"m", "u"}
    assert values_that_fit(path, {"m": (0, 1)}) == known | {"m", "u", "s"}


# Names in options that a model does not have

CLUSTER = ClusterReport(("conv1", "relu1"), ("x",), ("y",), 4, "nnapi-reference", ("Conv", "Relu"))
REJECTED = Rejection("odd", "Nowhere", Reason.OP, "no lowering")
REPORT = Report(8, "ep-nnapi", 3, 2, (CLUSTER,), (REJECTED,))


@pytest.mark.parametrize("name", ["conv1", "odd", "Nowhere", "MatMul", "QLinearAdd"])
def test_nodes_of_the_model_and_operator_types_may_be_excluded(name: str) -> None:
    """Types of this model, of ONNX and of ONNX Runtime, whether the model has them or not."""
    check_excluded(replace(Options(), exclude=(name,)), REPORT)


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"exclude names conv11, .*; did you mean conv1\?"):
        check_excluded(replace(Options(), exclude=("relu1", "conv11")), REPORT)
    with pytest.raises(OptionError, match=r"exclude names MatMull, .*did you mean MatMul\?"):
        check_excluded(replace(Options(), exclude=("MatMull",)), REPORT)


def test_stop_operators_are_types_only() -> None:
    check_excluded(replace(Options(), partitioning_stop_ops=("Nowhere", "Softmax")), REPORT)
    with pytest.raises(OptionError, match="partitioning_stop_ops names conv1, no operator type"):
        check_excluded(replace(Options(), partitioning_stop_ops=("conv1",)), REPORT)
