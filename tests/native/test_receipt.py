"""Receipts of the C plugin and of nnapi_run: what ran where, in the format of docs/receipts.md."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.inspect_context import contents
from ep_nnapi.nnapi.codes import ResultCode
from tests.native.build import HERE, ROOT, Build, environment, needs_compiler
from tests.native.forged_models import forged
from tests.native.ort_program import linked
from tests.native.sessions import LIBRARY, REFERENCE, session
from tests.programs import ran

pytestmark = needs_compiler
IMAGE = {"image": np.load(ROOT / "models" / "digits" / "samples.npz")["images"][:1]}
ODD = 'c"\\\n\x85\u202eZ\u00fcrich\U0001f600'


def read(path: Path) -> dict[str, Any]:
    """A receipt whose sums are right."""
    found: dict[str, Any] = json.loads(path.read_bytes())
    assert (found["format"], found["version"]) == ("ep-nnapi receipt", 1)
    for cluster in found["clusters"]:
        elsewhere = sum(fallback["runs"] for fallback in cluster["fallbacks"])
        assert cluster["runs"] == cluster["device_runs"] + elsewhere
        assert (cluster["milliseconds"] is None) == (cluster["runs"] == 0)
        if cluster["milliseconds"] is not None:
            assert 0 < cluster["milliseconds"]["least"] <= cluster["milliseconds"]["total"]
    return found


def test_a_session_of_a_c_program(model: Path, tmp_path: Path) -> None:
    path, image = tmp_path / "receipt.json", tmp_path / "image"
    image.write_bytes(IMAGE["image"].tobytes())
    command = [linked(tmp_path, HERE / "run_model.c"), ep_nnapi.context_library_path(), LIBRARY]
    command += [REFERENCE, model, image, tmp_path / "scores"]
    subprocess.run(command, check=True, timeout=300, env=os.environ | {"RECEIPT": str(path)})
    found = read(path)
    assert found["versions"]["onnxruntime"] == onnxruntime.__version__
    assert found["model"]["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    (cluster,) = found["clusters"]
    assert (cluster["device"], cluster["device_runs"]) == (REFERENCE, 1)


def test_a_session_of_the_plugin(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    made = session(model, receipt=str(path))
    for _ in range(3):
        made.run(None, IMAGE)
    assert not path.exists()
    del made
    found = read(path)
    assert found["versions"]["onnxruntime"] == onnxruntime.__version__
    assert found["versions"]["ep_nnapi"] == ep_nnapi.__version__
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert found["model"] == {"path": str(model.resolve()), "sha256": digest}
    (cluster,) = found["clusters"]
    assert cluster["name"] == "nnapi_0"
    assert cluster["nodes"] == ["nnapi_0"]
    assert (cluster["runtime"], cluster["device"]) == (LIBRARY, REFERENCE)
    assert (cluster["runs"], cluster["device_runs"], cluster["fallbacks"]) == (3, 3, [])
    (content,) = contents(model)
    assert cluster["compiled"]["operations"] == content.operations
    assert cluster["feature_level"] == content.feature_level
    assert cluster["compiled"]["weight_bytes"] > 1000
    assert [p.name for p in tmp_path.iterdir()] == ["receipt.json"]


def test_a_model_without_a_file_has_no_digest(tmp_path: Path) -> None:
    made = session(forged().SerializeToString(), receipt=str(tmp_path / "r.json"))
    del made
    found = read(tmp_path / "r.json")
    assert found["model"] == {"path": None, "sha256": None}
    (cluster,) = found["clusters"]
    assert (cluster["runs"], cluster["milliseconds"]) == (0, None)


@pytest.mark.parametrize(
    ("function", "phase", "own"),
    [("Compilation_finish", "compile", 0), ("Execution_burstCompute", "run", 2)],
)
def test_runs_of_the_fallback(function, phase, own, shim, model, tmp_path):
    """Those that the device did not compute, with the reason."""
    options = {"runtime": shim.path, "device": "host-cpu", "receipt": str(tmp_path / "r.json")}
    if phase == "compile":
        shim.fault(function, ResultCode.OP_FAILED, nth=1)
    made = session(model, **options)
    for _ in range(own):
        made.run(None, IMAGE)
    if phase == "run":
        shim.fault(function, ResultCode.OP_FAILED, nth=1)
    for _ in range(3):
        made.run(None, IMAGE)
    shim.clear()
    del made
    (cluster,) = read(tmp_path / "r.json")["clusters"]
    expected = ("host-cpu", own, own + 3)
    assert (cluster["device"], cluster["device_runs"], cluster["runs"]) == expected
    assert (cluster["compiled"] is None) == (phase == "compile")
    (fallback,) = cluster["fallbacks"]
    assert (fallback["to"], fallback["phase"], fallback["runs"]) == (REFERENCE, phase, 3)
    assert fallback["reason"] == f"ANeuralNetworks{function}: ANEURALNETWORKS_OP_FAILED"


def test_a_path_that_cannot_be_is_said_at_once(model: Path, tmp_path: Path) -> None:
    for path in ("/nowhere/r.json", str(tmp_path)):
        with pytest.raises(Exception, match=f"nnapi_0: receipt: {path}: (No such|Is a) "):
            session(model, receipt=path)
    assert not [*tmp_path.iterdir()]


def test_a_session_that_cannot_be_made_has_none(tmp_path: Path) -> None:
    bad = forged()
    bad.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    with pytest.raises(Exception, match="prepare the model again"):
        session(bad.SerializeToString(), receipt=str(tmp_path / "r.json"))
    assert not [*tmp_path.iterdir()]


def test_one_that_cannot_be_written_in_the_end_harms_nothing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    made = session(model, receipt=str(tmp_path / "gone" / "r.json"))
    shutil.rmtree(tmp_path / "gone")
    made.run(None, IMAGE)
    del made
    assert not [*tmp_path.iterdir()]


def run(build: Build, *words: object, status: int = 0) -> str:
    command = [str(build.program("nnapi_run")), *map(str, words), "--runs", "4"]
    done = ran(*command, "--runtime", build.stand_in, status=status, timeout=200, env=environment())
    return done.stderr


def test_nnapi_run(build: Build, model: Path, tmp_path: Path) -> None:
    """With one object for each device; the run that is not timed for its report counts too."""
    run(build, model, "--device", "all", "--receipt", tmp_path / "r.json")
    found = read(tmp_path / "r.json")
    assert set(found["versions"]) == {"ep_nnapi"}
    assert found["model"]["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert [c["device"] for c in found["clusters"]] == ["stand-in", REFERENCE]
    assert {c["device_runs"] for c in found["clusters"]} == {5}
    assert {c["runtime"] for c in found["clusters"]} == {str(build.stand_in)}
    assert {c["name"] for c in found["clusters"]} == {"nnapi_0"}


def test_nnapi_run_where_it_cannot_be_written(build: Build, model: Path, tmp_path: Path) -> None:
    said = run(build, model, "--receipt", "/nowhere/r.json", status=2)
    assert said == "nnapi_run: receipt: /nowhere/r.json: No such file or directory\n"
    said = run(build, model, "--receipt", "/dev/full", status=2)
    assert said.endswith("the receipt cannot be written: /dev/full: No space left on device\n")


@pytest.mark.parametrize("raw", [False, True])
def test_names_are_any_text(raw: bool, build: Build, tmp_path: Path) -> None:
    """And bytes that are none: JSON is UTF-8, and nothing in it turns a terminal's text."""
    proto = forged()
    proto.graph.node[0].name = ODD
    data = proto.SerializeToString()
    if raw:
        data = data.replace(b"Z\xc3\xbc", b"Z\xff\xc3")
    (tmp_path / "m.onnx").write_bytes(data)
    run(build, tmp_path / "m.onnx", "--receipt", tmp_path / "r.json")
    (cluster,) = read(tmp_path / "r.json")["clusters"]
    assert cluster["name"] == (ODD.replace("Z\u00fc", "Z\ufffd\ufffd") if raw else ODD)
    text = (tmp_path / "r.json").read_text("utf-8")
    assert "\u202e" not in text
    assert "\x85" not in text
