"""Receipts: the runs of sessions add up, whatever computed them, and files are whole."""

import gc
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.nnapi.codes import DeviceCode
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.host import HostRuntime
from ep_nnapi.nnapi.host.reference import ReferenceDevice
from ep_nnapi.options.table import HOST
from ep_nnapi.provider import devices, receipt
from tests.end_to_end.sessions import nnapi_session
from tests.faulty import FAULTY, FaultyDevice, installed
from tests.ort.models import abs_add, if_abs_add
from tests.programs import in_child, ran
from tests.runtimes import host_only

pytestmark = host_only
DIGITS = "models/digits.onnx"
X = {"x": np.array([[-1, 2, -3], [4, -5, 6]], np.float32)}
IMAGE = {"image": np.load("models/digits/samples.npz")["images"][0][None]}


@pytest.fixture(autouse=True)
def no_other_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of earlier tests may live until they are collected."""
    monkeypatch.setattr(receipt, "_living", {})


def session(model: str | bytes = DIGITS, **options: object) -> ort.InferenceSession:
    return nnapi_session(model, severity=4, **options)


def clusters(found: dict) -> list[dict]:
    """The clusters of a receipt; their runs are those of the device and of the fallbacks."""
    for each in found["clusters"]:
        assert each["runs"] == each["device_runs"] + sum(f["runs"] for f in each["fallbacks"])
    return found["clusters"]


def only(found: dict) -> dict:
    (cluster,) = clusters(found)
    return cluster


def test_a_file_says_what_ran_where(tmp_path: Path):
    file = tmp_path / "receipt.json"
    made = session(device="host-cpu", receipt=file)
    for _ in range(5):
        made.run(None, IMAGE)
    assert not file.exists()
    (living,) = ep_nnapi.receipts()
    del made
    assert ep_nnapi.receipts() == []
    found = json.loads(file.read_text())
    assert found == living
    assert found["format"], found["version"] == ("ep-nnapi receipt", 1)
    assert found["versions"]["onnxruntime"] == ort.__version__
    digest = hashlib.sha256(Path(DIGITS).read_bytes()).hexdigest()
    assert found["model"] == {"path": os.path.abspath(DIGITS), "sha256": digest}
    assert (found["nodes"], found["taken"], found["rejections"]) == (8, 8, [])
    cluster = only(found)
    assert cluster["nodes"] == list(ep_nnapi.check(DIGITS).clusters[0].nodes)
    expected = (HOST, "host-cpu", 8)
    assert (cluster["runtime"], cluster["device"], cluster["feature_level"]) == expected
    weights = [w for w in onnx.load(DIGITS).graph.initializer if w.data_type == TensorProto.FLOAT]
    sizes = sum(numpy_helper.to_array(w).nbytes for w in weights)
    assert sizes <= cluster["compiled"]["weight_bytes"] < sizes + 100  # a shape
    assert cluster["compiled"]["operations"] >= 5  # without activations, which are fused
    assert (cluster["runs"], cluster["device_runs"], cluster["fallbacks"]) == (5, 5, [])
    times = cluster["milliseconds"]
    assert 0 < 5 * times["least"] <= times["total"]


def test_receipts_are_those_of_the_living_sessions_in_order_and_need_no_option(tmp_path: Path):
    first, second = session(device="host-cpu"), session(abs_add(), device="nnapi-reference")
    first.run(None, IMAGE)
    found = ep_nnapi.receipts()
    assert [only(r)["device"] for r in found] == ["host-cpu", "nnapi-reference"]
    assert [only(r)["runs"] for r in found] == [1, 0]
    assert [only(r)["milliseconds"] for r in found] == [None, None]
    assert found[1]["model"] == {"path": None, "sha256": None}
    del first
    assert [only(r)["device"] for r in ep_nnapi.receipts()] == ["nnapi-reference"]
    del second


def test_threads_runs_without_python_and_an_inner_graph_add_up():
    made = session(if_abs_add(), device="host-cpu")
    feeds = [{**X, "c": np.array(chosen)} for chosen in (True, False)]

    def run(n: int) -> None:
        made.run(None, feeds[n % 3 == 0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(300)))
    (found,) = ep_nnapi.receipts()
    assert sorted(c["runs"] for c in clusters(found)) == [100, 200]
    assert sum(c["device_runs"] for c in clusters(found)) == 300


@pytest.mark.parametrize("fallback", ["reference", "cpu"])
def test_runs_after_a_failure_are_the_fallbacks(fallback: str):
    with installed(FaultyDevice(fails_at=frozenset({2}))):
        made = session(fallback=fallback)
        for _ in range(5):
            made.run(None, IMAGE)
    cluster = only(ep_nnapi.receipts()[0])
    assert (cluster["device"], cluster["runs"], cluster["device_runs"]) == (FAULTY, 5, 2)
    (found,) = cluster["fallbacks"]
    expected = ({"reference": "nnapi-reference", "cpu": "cpu"}[fallback], "run", 3)
    assert (found["to"], found["phase"], found["runs"]) == expected
    wanted = "ANeuralNetworksExecution_compute returned ANEURALNETWORKS_OP_FAILED: out of luck"
    assert found["reason"] == wanted


def test_runs_that_nothing_computed_are_not_counted():
    with installed(FaultyDevice(fails_at=frozenset({1}))):
        made = session(fallback="none")
        made.run(None, IMAGE)
        with pytest.raises(Exception, match="out of luck"):
            made.run(None, IMAGE)
    cluster = only(ep_nnapi.receipts()[0])
    assert (cluster["runs"], cluster["device_runs"], cluster["fallbacks"]) == (1, 1, [])


FAILING = FaultyDevice(
    name="host-cpu", type=DeviceCode.CPU, fails_on=frozenset({"ABS", "FULLY_CONNECTED"})
)
"""A device that sessions prefer, which promises what it does not compile."""


def with_failing_host_cpu() -> object:
    runtime = HostRuntime([FAILING, ReferenceDevice()])
    return patch.dict(devices.RUNTIMES, {HOST: lambda: runtime})


@pytest.mark.fast_devices
def test_a_device_that_does_not_compile_computed_no_run(tmp_path: Path):
    with with_failing_host_cpu():
        made = session()
        report = ep_nnapi.check(DIGITS)
    for _ in range(3):
        made.run(None, IMAGE)
    cluster = only(ep_nnapi.receipts()[0])
    (found,) = cluster["fallbacks"]
    assert (cluster["device"], cluster["compiled"]) == ("host-cpu", None)
    assert (cluster["runs"], cluster["device_runs"], found["runs"]) == (3, 0, 3)
    assert (found["to"], found["phase"]) == ("nnapi-reference", "compile")
    assert "no FULLY_CONNECTED today" in found["reason"]
    (told,) = report.to_json()["clusters"]
    assert told["device"] == "nnapi-reference"
    assert told["fallback"] == {
        "from": "host-cpu",
        "to": "nnapi-reference",
        "phase": "compile",
        "reason": found["reason"],
    }
    sentence = f"Cluster 0 on nnapi-reference in place of host-cpu (at compile): {found['reason']}"
    assert sentence in repr(report)
    assert sentence in report._repr_html_()


@pytest.mark.fast_devices
def test_run_and_compare_tell_of_a_device_that_does_not_compile(shows, capfd):
    with with_failing_host_cpu():
        found = json.loads(shows("run", DIGITS, "--json"))
        printed = shows("run", DIGITS)
        assert main(["compare", DIGITS]) == 1
        compared = capfd.readouterr().out
    (failure,) = found["failures"]
    (fallback,) = found["fallbacks"]
    assert found["fallback_runs"] == fallback["runs"] >= 1
    assert fallback["reason"] == failure
    assert "no FULLY_CONNECTED today" in failure
    assert "Cluster 0 on nnapi-reference in place of host-cpu (at compile): " in printed
    assert "Cluster 0: 1 run on nnapi-reference in place of host-cpu (at compile): " in printed
    assert "Cluster 0: 1 run on nnapi-reference in place of host-cpu (at compile): " in compared


@pytest.mark.fast_devices
def test_sizes_add_up_also_those_that_the_device_does_not_compile():
    """One compilation of host-cpu, made with the session, computes both sizes."""
    made = session(abs_add(("n", 3)))
    before = only(ep_nnapi.receipts()[0])
    assert (before["compiled"]["operations"], before["runs"]) == (2, 0)
    for rows in (1, 2, 1, 2):
        made.run(None, {"x": np.ones((rows, 3), np.float32)})
    cluster = only(ep_nnapi.receipts()[0])
    assert (cluster["device"], cluster["device_runs"]) == ("host-cpu", 4)
    compiled = cluster["compiled"]
    assert (compiled["operations"], compiled["compilations"]) == (2, 1)
    (sizes,) = compiled["open_sizes"]
    assert sizes == {"symbols": {"n": ["x", 0]}, "conditions": ["-12 * n + 4294967295 >= 0"]}
    with with_failing_host_cpu():
        other = session(abs_add(("n", 3)))
    for rows in (1, 2, 1):
        other.run(None, {"x": np.ones((rows, 3), np.float32)})
    cluster = only(ep_nnapi.receipts()[1])
    (found,) = cluster["fallbacks"]
    assert (cluster["device"], cluster["device_runs"], found["runs"]) == ("host-cpu", 0, 3)
    assert (found["to"], found["phase"]) == ("nnapi-reference", "compile")


def test_sizes_that_cannot_be_compiled_are_runs_of_the_cpu():
    with installed(FaultyDevice(refuses_above=250)):
        made = session(abs_add(("n", 3)))
        for rows in (1, 40, 40, 1):
            made.run(None, {"x": np.ones((rows, 3), np.float32)})
    cluster = only(ep_nnapi.receipts()[0])
    (found,) = cluster["fallbacks"]
    expected = (2, "cpu", "compile", 2)
    assert (cluster["device_runs"], found["to"], found["phase"], found["runs"]) == expected
    assert "the model is too large" in found["reason"]


def test_nodes_that_the_device_leaves_are_told():
    with installed(FaultyDevice(fails_on=frozenset({"FULLY_CONNECTED"}))):
        made = session()
    (found,) = ep_nnapi.receipts()
    assert found["taken"] + len(found["rejections"]) == found["nodes"] == 8
    assert {r["reason"] for r in found["rejections"]} == {"DRIVER"}
    del made


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/tmp/no such folder/receipt.json", "No such file or directory"),
        ("models", "Is a directory"),
        ("models/digits.onnx/receipt.json", "Not a directory"),
        ("/tmp/" + 300 * "a", "File name too long"),
        ("nul\0", "null"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_at_once(path: str, why: str):
    with pytest.raises(OptionError, match=f"receipt is .* cannot be written: .*{why}"):
        session(receipt=path)


def test_a_full_disk_costs_the_receipt_and_not_the_session(caplog, tmp_path):
    """The folder goes while the session runs, or the device has no space."""
    gone = tmp_path / "gone"
    gone.mkdir()
    for file, why in ((gone / "r.json", "No such file"), (Path("/dev/full"), "No space left")):
        made = session(receipt=file)
        if gone.exists():
            gone.rmdir()
        made.run(None, IMAGE)
        del made
        gc.collect()
        assert f"the receipt {file} cannot be written: {why}" in caplog.text


def test_a_session_that_lives_until_the_end_of_python_has_a_receipt(tmp_path: Path):
    file = tmp_path / "receipt.json"
    program = f"""
import ep_nnapi, numpy as np, onnxruntime as ort
settings = ort.SessionOptions()
ep_nnapi.append_execution_provider(settings, receipt={str(file)!r})
kept = ort.InferenceSession({DIGITS!r}, settings)
for _ in range(3):
    kept.run(None, {{"image": np.zeros((1, 1, 8, 8), np.float32)}})
"""
    command = [sys.executable, "-c", program]
    done = ran(*command, status=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert only(json.loads(file.read_text()))["device_runs"] == 3


def test_a_forked_process_writes_no_receipt_of_its_parents_session(tmp_path: Path):
    file = tmp_path / "receipt.json"
    made = session(device="host-cpu", receipt=file)
    made.run(None, IMAGE)

    def in_the_child(kept: ort.InferenceSession = made) -> int:
        kept.run(None, IMAGE)
        return only(ep_nnapi.receipts()[0])["runs"]

    assert in_child(in_the_child) == 2
    del in_the_child
    assert not file.exists()
    del made
    assert only(json.loads(file.read_text()))["runs"] == 1


@pytest.mark.parametrize("verb", ["run", "compare", "tune"])
def test_verbs_that_run_write_one(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "receipt.json"
    tuned = ["--seconds", "0.1", "--device", "nnapi-reference", "-o", str(tmp_path / "s.json")]
    more = tuned if verb == "tune" else []
    assert main([verb, DIGITS, "--receipt", str(file), *more]) == 0
    found = json.loads(file.read_text())
    if found["clusters"]:  # tune may choose the CPU
        assert only(found)["runs"] >= 1
        assert found["model"]["path"] == os.path.abspath(DIGITS)
    assert verb == "tune" or found["clusters"]
    capsys.readouterr()


@pytest.mark.parametrize("verb", ["run", "compare", "tune"])
def test_a_verb_whose_receipt_is_not_written_has_failed(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tuned = ["--seconds", "0.1", "--device", "nnapi-reference", "-o", str(tmp_path / "s.json")]
    more = tuned if verb == "tune" else []
    assert main([verb, DIGITS, "--receipt", "/dev/full", *more]) == 2
    out, err = capsys.readouterr()
    said = "the receipt /dev/full cannot be written: No space left on device"
    assert (out, err.splitlines()) == ("", [f"ep-nnapi: {said}"])


def test_a_verb_that_runs_nothing_refuses_it(capsys: pytest.CaptureFixture[str]):
    assert main(["check", DIGITS, "--receipt", "r.json"]) == 2
    assert "nothing runs here, so there is no receipt" in capsys.readouterr().err


def test_sizes_that_are_fixed_leave_the_models_own_name(tmp_path: Path):
    file, model = tmp_path / "receipt.json", tmp_path / "m.onnx"
    model.write_bytes(abs_add(("n", 3)))
    assert main(["run", str(model), "--fix", "n=4", "--receipt", str(file)]) == 0
    expected = {"path": str(model), "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    assert json.loads(file.read_text())["model"] == expected
