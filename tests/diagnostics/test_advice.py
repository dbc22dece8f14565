"""Alternatives to NNAPI: operators that are taken, and notes on types and sizes."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from ep_nnapi.diagnostics.advice import QNN, XNNPACK, OtherRuntime, advise
from ep_nnapi.litert import package
from ep_nnapi.litert.lowering import LOWERINGS
from ep_nnapi.nnapi import spec
from ep_nnapi.nnapi.errors import ModelError
from models import zoo
from tests.litert.needs import LITERT
from tests.onnx_graph import model_of


def saved(
    path: Path, *nodes: onnx.NodeProto, shape: tuple[int | str, ...] = (2, 3), opset: int = 17
) -> str:
    onnx.save(model_of(nodes, {"x": shape}, {"y": shape}, opset=opset), path)
    return str(path)


def alternatives(model: str) -> dict[str, OtherRuntime]:
    return {each.name: each for each in advise(model)}


def softmax_of_elu(path: Path, **options: object) -> str:
    elu = helper.make_node("Elu", ["x"], ["e"])
    return saved(path, elu, helper.make_node("Softmax", ["e"], ["y"]), **options)


def test_each_takes_what_it_lists(tmp_path: Path) -> None:
    found = alternatives(softmax_of_elu(tmp_path / "m.onnx"))
    taken = {name: (each.taken, dict(each.left)) for name, each in found.items()}
    assert taken == {
        "CPU": (2, {}),
        "XNNPACK": (1, {"Elu": 1}),
        "WebGPU": (None, {}),
        "QNN": (2, {}),
        "LiteRT": (2, {}),
    }


def test_litert_is_asked_operation_by_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(LOWERINGS, (spec.ELU, spec.F32))
    litert = alternatives(softmax_of_elu(tmp_path / "m.onnx"))["LiteRT"]
    assert (litert.taken, dict(litert.left)) == (1, {"Elu": 1})


@LITERT
def test_the_library_says_what_each_accelerator_compiles(tmp_path: Path) -> None:
    litert = alternatives(softmax_of_elu(tmp_path / "m.onnx"))["LiteRT"]
    (note,) = [n for n in litert.notes if "litert-cpu" in n]
    assert note == f"LiteRT {package.library()[1]} compiles 2 of 2 nodes for litert-cpu"
    assert (litert.taken, litert.nodes) == (2, 2)


def test_symbolic_sizes_must_be_fixed_for_some(tmp_path: Path) -> None:
    found = alternatives(softmax_of_elu(tmp_path / "m.onnx", shape=("batch", 3)))
    for name in ("QNN", "LiteRT"):
        assert "static shapes only: fix x" in found[name].notes
        assert found[name].command.endswith("--fix x=SIZES")
    for name in ("CPU", "XNNPACK", "WebGPU"):
        assert "--fix" not in found[name].command


@pytest.mark.parametrize(("opset", "noted"), [(21, False), (22, True)])
def test_webgpu_takes_fewer_operators_of_newer_opsets(tmp_path: Path, opset: int, noted: bool):
    notes = alternatives(softmax_of_elu(tmp_path / "m.onnx", opset=opset))["WebGPU"].notes
    assert any("opset 22" in note for note in notes) == noted


def test_quantized_models_are_for_some(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(zoo.quantized("mlp", "u8s8", size=None), path)
    found = alternatives(str(path))
    assert any("give it the float model" in note for note in found["WebGPU"].notes)
    assert any("QLinear" in note for note in found["XNNPACK"].notes)
    assert not any("not quantized" in note for note in found["QNN"].notes)
    assert found["LiteRT"].taken == found["LiteRT"].nodes


def test_paths_are_quoted(tmp_path: Path) -> None:
    found = advise(softmax_of_elu(tmp_path / "my model.onnx"))
    assert all(f"'{tmp_path}/my model.onnx'" in each.command for each in found)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.ort"
    path.write_bytes(b"\0" * 32)
    with pytest.raises(ModelError):
        advise(str(path))


# The lists of documented operators name operators that exist


@pytest.mark.parametrize("listed", [XNNPACK, QNN], ids=["XNNPACK", "QNN"])
def test_onnx_has_them(listed: frozenset[str]) -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    unknown = {name for name in listed if ":" not in name} - known
    assert not unknown
    assert all(name.startswith("com.microsoft:") for name in listed if ":" in name)
