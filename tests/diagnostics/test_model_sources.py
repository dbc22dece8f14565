"""Models and inputs of Python callers: models in memory, arrays; and those that are refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ep_nnapi
from tests.cli.command import DIGITS


def subtraction() -> onnx.ModelProto:
    """y = a - b, whose inputs are not to be mistaken for one another."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2,)) for n in "aby"]
    node = helper.make_node("Sub", ["a", "b"], ["y"], "sub")
    graph = helper.make_graph([node], "g", ends[:2], ends[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


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
    assert softmax.operations == ("SOFTMAX",)
    assert softmax.level == 1
    assert "FLOAT32" in softmax.types
    with pytest.raises(dataclasses.FrozenInstanceError):
        softmax.level = 2  # type: ignore[misc]


def test_devices_are_those_of_the_runtime():
    (device,) = (d for d in ep_nnapi.devices() if d.name == "nnapi-reference")
    assert (device.type.name, device.feature_level) == ("CPU", 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.name = "x"  # type: ignore[misc]
