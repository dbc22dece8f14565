"""Every verb says behind an agent what it says of the library itself, but for times."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.profile.seeds import seeds_of
from ep_nnapi.nnapi.runtime import REFERENCE_DEVICE
from ep_nnapi.nnapi.spec import BY_NAME
from tests.cli.command import DONE, NEGATIVE
from tests.native.build import needs_compiler
from tests.remote.agents import Reach
from tests.remote.conftest import ADB, built, reach
from tests.remote.networks import chosen, network

__all__ = ["built", "reach"]
pytestmark = needs_compiler
DIGITS = Path("models/digits.onnx")
LIBRARY = ep_nnapi.libneuralnetworks_path()
FLOAT = ("mlp", "kws_dscnn")
QUANTIZED = ("kws_dscnn:u8s8", "mlp:u8u8", "digits:dynamic")
NETWORKS = (
    *((name, "exec") for name in FLOAT),
    *(pytest.param(name, *ADB.values, marks=ADB.marks) for name in chosen((*FLOAT, *QUANTIZED))),
)
TIMES = {"latency", "device_times", "timing", "output", "runtime", "seed"}
"""Keys of what is another one each time, or the name of the runtime."""
VERBS = {
    "check": (),
    "run": ("--tolerance", "1e-3"),
    "compare": ("--tolerance", "1e-3"),
    "tune": ("--seconds", "1"),
    "report": ("--measure",),
    "devices": (),
}
ROUNDED = ("--tolerance", "0.5")
"""Instead of that of float networks: quantized ones round otherwise on the CPU provider."""


def each(*verbs: str) -> pytest.MarkDecorator:
    """Each of the verbs; all but `run` in the long suite."""
    long = (pytest.param(v, marks=pytest.mark.long) for v in verbs if v != "run")
    return pytest.mark.parametrize("verb", ["run", *long])


Cli = Callable[..., tuple[int, str, str]]


def steady(said: Any) -> Any:
    """What a verb says without times."""
    if isinstance(said, dict):
        return {key: steady(value) for key, value in said.items() if key not in TIMES}
    return [steady(each) for each in said] if isinstance(said, list) else said


def told(cli: Cli, verb: str, model: Path, runtime: str, *more: object) -> tuple[int, Any]:
    """The exit code and the JSON."""
    page = ("-o", model.parent / "page.html") if verb == "report" else ()
    code, out, err = cli(verb, model, "--json", "--runtime", runtime, *page, *more)
    assert "Traceback" not in err
    said = steady(json.loads(out))
    if verb == "tune":  # others follow from what is the fastest of these
        first = [
            c for c in said["candidates"] if c["name"].split(", ")[1:] in ([], ["nnapi-aware"])
        ]
        said = {"candidates": first}
    return code, said


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    path = tmp_path / "digits.onnx"
    path.write_bytes(DIGITS.read_bytes())
    return path


def same(cli: Cli, verb: str, model: Path, runtime: str, *more: object) -> None:
    given = (*VERBS[verb], *(more if "--tolerance" in VERBS[verb] else ()))
    here, there = (told(cli, verb, model, r, *given) for r in (LIBRARY, runtime))
    assert here[0] == DONE
    assert here == there


@each(*VERBS)
def test_verbs_say_the_same(verb: str, digits: Path, reach: Reach, cli: Cli):
    same(cli, verb, digits, reach())


@pytest.mark.long
@pytest.mark.parametrize(("name", "reach"), NETWORKS, indirect=["reach"])
def test_of_the_zoo_too(name: str, reach: Reach, tmp_path: Path, cli: Cli):
    """Set EP_NNAPI_NETWORKS=all for all networks over adb."""
    model = tmp_path / f"{name}.onnx"
    onnx.save(network(name), model)
    for verb in VERBS:
        same(cli, verb, model, reach(), *(ROUNDED if ":" in name else ()))


@pytest.mark.long
def test_devices_and_their_costs(reach: Reach, tmp_path: Path, cli: Cli):
    runtime = reach()
    here, there = (
        json.loads(cli("devices", "--json", "--runtime", r)[1]) for r in (LIBRARY, runtime)
    )
    assert steady(here) == steady(there)
    costs = tmp_path / "calibration.json"
    given = ("--calibrate", costs, "--device", REFERENCE_DEVICE, "--runtime", runtime)
    assert cli("devices", *given)[0] == DONE
    assert json.loads(costs.read_text())["device"] == REFERENCE_DEVICE
    assert cli("check", DIGITS, "--calibration", costs, "--runtime", runtime)[0] == DONE


@pytest.mark.long
def test_profiles_are_the_same(reach: Reach, tmp_path, cli: Cli, monkeypatch):
    few = [s for name in ("ADD", "MAX_POOL_2D", "SPLIT") for s in seeds_of(BY_NAME[name])]
    monkeypatch.setattr("ep_nnapi.nnapi.profile.record.seeds", lambda: few)
    runtimes = LIBRARY, reach()
    files = [tmp_path / "here.json", tmp_path / "there.json"]
    for runtime, file in zip(runtimes, files, strict=True):
        given = ("--runtime", runtime, "--device", REFERENCE_DEVICE, "-o", file)
        assert cli("profile", *given)[0] == DONE
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.fixture
def wrong(reach: Reach) -> str:
    """An agent behind whose library 1 is added to what each operation computes."""
    return reach(reach.bench.altered, WRONG="all")


@each("run", "compare", "tune")
def test_verbs_show_what_is_wrong(verb: str, wrong: str, digits: Path, cli: Cli):
    code, said = told(cli, verb, digits, wrong, "--device", REFERENCE_DEVICE, *VERBS[verb])
    if verb == "tune":
        made = [c for c in said["candidates"] if c["provider"] == "NNAPI"]
        assert made
        assert not any(c["within_tolerance"] for c in made)
    else:
        assert code == NEGATIVE
        assert all(o["beyond"] for o in said["differences" if verb == "run" else "outputs"])


@pytest.mark.long
def test_doctor_shows_what_is_wrong(wrong: str, cli: Cli):
    given = ("--runtime", wrong, "--device", REFERENCE_DEVICE, "--operation", "RELU1", "--json")
    code, out, _ = cli("doctor", *given)
    assert code == NEGATIVE
    assert json.loads(out)["wrong"] == ["RELU1"]
