"""`doctor`: a library that computes wrongly, hangs and dies is found out, and left to the CPU."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import ep_nnapi
from ep_nnapi import OptionError, Reason
from ep_nnapi.diagnostics import doctor as module
from ep_nnapi.diagnostics.doctor import Examination
from ep_nnapi.nnapi.profile.file import read
from ep_nnapi.nnapi.profile.flaws import ANY_TYPES, Defect
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.nnapi.spec import BY_NAME
from ep_nnapi.options.table import parse
from ep_nnapi.ort_devices.device import HOST_CPU
from ep_nnapi.provider.devices import device_order
from ep_nnapi.remote.adb import AGENTS
from ep_nnapi.sessions.cpu import session_of
from tests.bundling.phone import ABI, needs_abi
from tests.cli.command import ROOT
from tests.end_to_end.sessions import nnapi_session
from tests.native.build import needs_compiler
from tests.onnx_graph import model_of, nodes_of
from tests.remote.agents import Bench, agents_folder, bench, phone

WRONG = ("RELU1", "RELU6", "EXP", "SQRT", "RSQRT", "LOGISTIC", "ABS", "NEG", "LOG", "FLOOR")
HANGS, DIES, RIGHT = ("LOGICAL_AND", "LOGICAL_OR"), ("SIN",), ("RELU", "TANH")
DEFECTS = {"WRONG": WRONG, "HANGS": HANGS, "DIES": DIES}
ALL = (*WRONG, *HANGS, *DIES, *RIGHT)


def codes(names: tuple[str, ...]) -> str:
    return "".join(f",{BY_NAME[name].code}" for name in names) + ","


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def library(made: Bench) -> Iterator[str]:
    """A library with defects in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, operations in DEFECTS.items():
            patch.setenv(name, codes(operations))
        yield str(made.altered)


@pytest.fixture(scope="module")
def examined(library: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Examination, Path]:
    path = tmp_path_factory.mktemp("doctor") / "device.json"
    given = {"device": REFERENCE_DEVICE, "operations": ALL, "timeout": 2}
    return ep_nnapi.doctor(path, runtime=library, **given), path


@needs_compiler
def test_exactly_the_defects_are_found(examined: tuple[Examination, Path]) -> None:
    found, path = examined
    named = {defect: set(found.names(defect)) for defect in Defect}
    assert named == {
        Defect.WRONG: set(WRONG),
        Defect.HANGS: set(HANGS),
        Defect.DIES: set(DIES),
        Defect.FAILS: set(),
    }
    right = {o.name: o for o in found.operations if not o.flaws}
    assert right.keys() == set(RIGHT)
    assert all(o.right == o.trials > 30 and min(o.seconds) > 0 for o in right.values())
    assert read(path) == found.profile
    whole = {name for name, types in found.profile.flaws if types == ANY_TYPES}
    assert whole == {*HANGS, *DIES}
    kinds = {kind: flaws for kind, flaws in found.profile.flaws.items() if kind[1] != ANY_TYPES}
    assert {name for name, _ in kinds} == set(WRONG)
    for (_, types), flaws in kinds.items():  # it adds 1 to float32 results
        assert types.endswith("> TENSOR_FLOAT32")
        assert [(f.traits, f.defect) for f in flaws] == [(frozenset(), Defect.WRONG)]
        assert flaws[0].error == pytest.approx(1, rel=1e-3)
        assert flaws[0].allowed < 1e-4
    details = {o.name: o.worst.detail for o in found.operations if o.worst}
    assert details["SIN"] == "SIGSEGV"


NODES = "a = Relu(x) b = Exp(a) c = Tanh(b) d = Sin(c) y = Relu(d)"
MODEL = model_of(nodes_of(NODES), {"x": (2, 16)}, {"y": (2, 16)}, opset=21).SerializeToString()
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 16)


def rejected(report: ep_nnapi.Report) -> dict[str, tuple[Reason, str]]:
    return {r.op_type: (r.reason, r.detail) for r in report.rejections}


@needs_compiler
@pytest.mark.parametrize("runtime", ["host", "library"])
def test_sessions_leave_to_the_cpu_what_is_wrong(runtime, examined, library):
    options = {"runtime": library if runtime == "library" else runtime}
    options["device_profile"] = str(examined[1])
    found = rejected(ep_nnapi.check(MODEL, **options))
    assert found.keys() == {"Exp", "Sin"}
    reason, detail = found["Exp"]
    assert reason is Reason.ACCURACY
    assert detail == "nnapi-reference computes EXP wrongly: an error of 1, above 1.01e-05"
    assert found["Sin"] == (Reason.DRIVER, "nnapi-reference ends its process in SIN (SIGSEGV)")
    made = nnapi_session(MODEL, **options)
    (want,) = session_of(MODEL).run(None, {"x": X})
    np.testing.assert_allclose(made.run(None, {"x": X})[0], want, rtol=1e-5, atol=1e-5)


SOME = (*HANGS[:1], *DIES, "LOG")


@needs_abi
@needs_compiler
@pytest.mark.parametrize(
    ("how", "some"),
    [("exec", SOME), *(pytest.param(how, ALL, marks=pytest.mark.long) for how in ("exec", "adb"))],
    ids=["exec", "exec, all", "adb, all"],
)
def test_behind_an_agent_it_is_the_same(how, some, examined, made, library, tmp_path, monkeypatch):
    monkeypatch.setenv(AGENTS, str(agents_folder(made, tmp_path / "agents", ABI)))
    phone(tmp_path, ABI, monkeypatch.setenv).says("library", library)
    runtime = "adb:one" if how == "adb" else f"exec:{made.command(tmp_path / 'agent', library)}"
    given = {"device": REFERENCE_DEVICE, "operations": some, "timeout": 1}
    found = ep_nnapi.doctor(runtime=runtime, **given)
    local = {kind: flaws for kind, flaws in examined[0].profile.flaws.items() if kind[0] in some}
    assert found.profile.flaws.keys() == local.keys()
    for kind, flaws in local.items():
        expected = [replace(f, detail="") for f in flaws]
        assert [replace(f, detail="") for f in found.profile.flaws[kind]] == expected


@needs_compiler
def test_without_the_profile_they_are_wrong(library: str) -> None:
    """So that the tests above can fail."""
    model = model_of(nodes_of("y = Exp(x)"), {"x": (2, 16)}, {"y": (2, 16)}, opset=21)
    made = nnapi_session(model.SerializeToString(), runtime=library)
    assert not np.allclose(made.run(None, {"x": X})[0], np.exp(X), atol=0.1)


@needs_compiler
def test_prepared_models_too(examined: tuple[Examination, Path], library: str, tmp_path: Path):
    onnx.save(onnx.load_from_string(MODEL), tmp_path / "model.onnx")
    profile = str(examined[1])
    done = ep_nnapi.prepare(
        tmp_path / "model.onnx", tmp_path / "out.onnx", runtime=library, device_profile=profile
    )
    (model,) = done.models
    assert {r["reason"] for r in model.report["rejections"]} == {"ACCURACY", "DRIVER"}


@pytest.mark.fast_devices
def test_the_device_is_the_one_that_sessions_use() -> None:
    found = ep_nnapi.doctor(operations=["RELU"])
    assert found.profile.device.name == device_order(parse({}))[0] == HOST_CPU


def test_a_profile_is_the_same_each_time(tmp_path: Path) -> None:
    """The second one replaces the first."""
    path = tmp_path / "device.json"
    found = [ep_nnapi.doctor(path, operations=["RELU"]) and path.read_bytes() for _ in range(2)]
    assert found[0] == found[1]
    assert json.loads(found[0])["flaws"] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"operations": ["RELUU"]}, "'RELUU' is none that is sampled; did you mean RELU"),
        ({"device": "gpu-7"}, "device 'gpu-7' is unknown"),
        ({"runtime": "none.so"}, "none.so"),
        ({"runtime": str(ROOT / "Makefile")}, "Makefile"),
        ({"timeout": 0}, "timeout is 0; it must be above 0"),
        ({"path": "nowhere/device.json"}, "output is 'nowhere/device.json', which cannot be"),
    ],
)
def test_what_cannot_be_examined(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ep_nnapi.doctor(**({"operations": ["RELU"]} | given))


@pytest.mark.parametrize("most", [1000, 100_000])
def test_a_full_disk_is_a_sentence(tmp_path: Path, most: int) -> None:
    """Simulated: files of this process end after so many bytes; that of results has more."""
    path, limits = tmp_path / "device.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        with pytest.raises((OSError, OptionError), match=r"No space left|cannot be written"):
            ep_nnapi.doctor(path, operations=["ADD"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_an_error_of_this_package_is_no_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVER_MODULE", "tests.diagnostics.odd_doctor")
    with pytest.raises(ep_nnapi.NnapiError, match="worker process failed: ValueError: odd"):
        ep_nnapi.doctor(operations=["RELU"])


def test_an_interrupted_examination_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    command = [sys.executable, "-m", "ep_nnapi", "doctor", "--operation", "CONV_2D", "-o", path]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as run:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*/results.jsonl")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (130, "", "ep-nnapi: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_host_cpu_is_right_in_all_that_it_takes() -> None:
    """Numbers that ONNX Runtime has no kernels for are declined, and a negative keep_dims is no."""
    found = ep_nnapi.doctor(device=HOST_CPU, operations=["LOCAL_RESPONSE_NORMALIZATION", "MEAN"])
    assert not found.negative
    assert all(o.right == o.trials > 60 for o in found.operations)
