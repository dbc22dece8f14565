"""A provider of somebody else's plugin library as a device: sessions, `run`, the C library."""

import ctypes
import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.ort_devices import plugin
from tests.end_to_end.sessions import nnapi_session
from tests.onnx_graph import parsed
from tests.ort_devices.providers import NAME, build_small_ep
from tests.programs import Done, ran

ROOT = Path(__file__).resolve().parents[2]
DEVICE = f"ort:{NAME}"
C_CLIENT = """
import ctypes
import ep_nnapi
from ep_nnapi.nnapi.capi import libneuralnetworks_path
from ep_nnapi.nnapi.capi.device import runtime
from ep_nnapi.nnapi.capi.compilation import COMPILATIONS
from tests.capi.client import Library
from tests.capi.world import World

world = World(Library(libneuralnetworks_path()))
compilation = world.ready(for_device=False)
execution = world.set_all(world.execution(compilation))
world.check("Execution_compute", execution)
print([d.name for d in runtime().devices()], COMPILATIONS[compilation]._compiled[0].name, world.out)
"""
"""A client of the C API that names no device: 1 + 10 and 2 + 20."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_ep(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tanh between an Add and a Relu."""
    text = """(float[2,3] x) => (float[2,3] y) {
        [add] twice = Add (x, x) [tanh] bent = Tanh (twice) [relu] y = Relu (bent) }"""
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(parsed(text), path)
    return path


@pytest.fixture
def registered(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The library, which is registered in this process until the test ends, not for later ones."""
    monkeypatch.setenv("EP_NNAPI_PROVIDERS", str(library))
    yield library
    plugin._load.cache_clear()
    gc.collect()  # sessions on it
    onnxruntime.unregister_execution_provider_library(str(library))


def in_process(*arguments: str, **environment: object) -> Done:
    env = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return ran(sys.executable, *arguments, status=None, timeout=120, env=env)


def test_a_session_runs_on_it(registered: Path, model: Path) -> None:
    """What it declines stays on the CPU provider, with the reason."""
    report = ep_nnapi.check(model, device=DEVICE)
    assert [(c.nodes, c.device) for c in report.clusters] == [
        (("add",), DEVICE),
        (("relu",), DEVICE),
    ]
    assert [(r.node, r.reason.name) for r in report.rejections] == [("tanh", "DRIVER")]
    session = nnapi_session(model, device=DEVICE, fallback="none")
    runs = ctypes.c_long.in_dll(ctypes.CDLL(str(registered)), "small_ep_runs")
    before, x = runs.value, np.array([[1, -2, 3], [0, 0.5, -6]], np.float32)
    (got,) = session.run(None, {"x": x})
    np.testing.assert_allclose(got, np.maximum(np.tanh(2 * x), 0), 1e-6)
    assert runs.value == before + 2


def test_run_names_it(library: Path, model: Path) -> None:
    command = ("-m", "ep_nnapi", "run", str(model), "--device", DEVICE, "--json")
    done = in_process(*command, EP_NNAPI_PROVIDERS=library)
    assert (done.returncode, done.stderr) == (0, "")
    assert {c["device"] for c in json.loads(done.stdout)["report"]["clusters"]} == {DEVICE}


def test_clients_of_the_c_library_run_on_it(library: Path) -> None:
    named = {"EP_NNAPI_PROVIDERS": library, "EP_NNAPI_DEVICES": DEVICE}
    done = in_process("-c", C_CLIENT, **named)
    expected = f"['nnapi-reference', 'host-cpu', '{DEVICE}'] {DEVICE} [11. 22.]\n"
    assert (done.stdout, done.stderr) == (expected, "")


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"EP_NNAPI_DEVICES": "gpu"}, "EP_NNAPI_DEVICES names 'gpu', which is none of litert-cpu"),
        ({"EP_NNAPI_DEVICES": DEVICE}, f"no provider {NAME} is registered"),
    ],
)
def test_the_c_library_says_why_a_device_is_not_there(named: dict[str, str], says: str) -> None:
    done = in_process("-c", C_CLIENT, EP_NNAPI_LOG="info", **named)
    assert says in done.stderr


def test_a_library_that_cannot_be_loaded_is_named(model: Path, tmp_path, monkeypatch):
    path = tmp_path / "libnothing.so"
    monkeypatch.setenv("EP_NNAPI_PROVIDERS", str(path))
    with pytest.raises(OptionError, match=r"libnothing\.so, but ") as refused:
        ep_nnapi.check(model, device="ort:Nothing")
    assert "\n" not in str(refused.value)
