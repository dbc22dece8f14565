"""Phones as virtual devices: ONNX Runtime compiles for them, and runs on them, on this machine."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import _pybind_state as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.ort.api import ALLOW_VIRTUAL, environment_entries
from ep_nnapi.ort.factory import DEVICES, virtual_factories
from ep_nnapi.provider.virtual_devices import FOLDER_VARIABLE
from tests.documents import blocks
from tests.nnapi.profile.examples import path_of
from tests.onnx_graph import serialized
from tests.ort.conftest import NAME, settings
from tests.ort.programs import ENVIRONMENT, wheels_library
from tests.programs import ran

ROOT = Path(__file__).parents[2]
REGISTERED = "nnapi.virtual"
SIZES = (2, 3)
X = {"x": np.array([[-1, 2, -3], [4, -5, 6]], np.float32)}
# Each operator is NNAPI's from this feature level on; only float32 is used.
SINCE = {"Sigmoid": 1, "Reciprocal": 2, "Sin": 3}


def chain() -> bytes:
    """x -> Sigmoid -> Reciprocal -> Sin -> y, every node named like its operator."""
    nodes = "[Sigmoid] a = Sigmoid (x) [Reciprocal] b = Reciprocal (a) [Sin] y = Sin (b)"
    return serialized(f"(float[2,3] x) => (float[2,3] y) {{ {nodes} }}")


@pytest.fixture
def phones() -> Iterator[dict[str, onnxruntime.OrtEpDevice]]:
    """The virtual devices by name, while the library is registered."""
    onnxruntime.register_execution_provider_library(REGISTERED, ep_nnapi.get_library_path())
    found = [d for d in onnxruntime.get_ep_devices() if d.device.metadata.get("is_virtual") == "1"]
    yield {d.ep_metadata["nnapi_device"]: d for d in found if d.ep_name == NAME}
    onnxruntime.unregister_execution_provider_library(REGISTERED)


def on(phone: object, **options: str) -> onnxruntime.SessionOptions:
    chosen = settings()
    chosen.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    chosen.add_provider_for_devices([phone], options)
    return chosen


def taken(session: onnxruntime.InferenceSession) -> set[str]:
    parts = session.get_provider_graph_assignment_info()
    return {n.name for part in parts if part.ep_name == NAME for n in part.get_nodes()}


def test_there_is_a_device_for_each_level_and_each_profile(phones):
    levels = [f"feature-level-{n}" for n in range(8, 0, -1)]
    samples = ["sample-float", "sample-float-engine", "sample-minimal", "sample-quant"]
    assert list(phones) == levels + samples
    phone = phones["feature-level-5"]
    assert phone.device.type.name == "NPU"
    assert phone.ep_metadata["nnapi_feature_level"] == "5"


@pytest.mark.parametrize("level", range(1, 9))
def test_a_session_takes_the_nodes_of_the_phone(phones, level: int):
    """And has the CPU provider's results: the host runtime computes."""
    session = onnxruntime.InferenceSession(chain(), on(phones[f"feature-level-{level}"]))
    assert taken(session) == {name for name, since in SINCE.items() if since <= level}
    expected = np.sin(1 + np.exp(-X["x"].astype(np.float64)))
    # float32, with arguments of up to 149: their rounding alone makes 8e-6
    np.testing.assert_allclose(session.run(None, X)[0], expected, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "expected"), [("sample-float", set(SINCE)), ("sample-quant", set())]
)
def test_a_profile_decides(phones, name: str, expected: set[str]):
    assert taken(onnxruntime.InferenceSession(chain(), on(phones[name]))) == expected


@pytest.mark.parametrize(("level", "left"), [(1, ["Reciprocal", "Sin"]), (2, ["Sin"]), (8, [])])
def test_the_model_compiler_compiles_for_the_phone(phones, level: int, left: list[str]):
    compiler = onnxruntime.ModelCompiler(
        on(phones[f"feature-level-{level}"]), chain(), embed_compiled_data_into_model=True
    )
    compiled = onnx.load_from_string(compiler.compile_to_bytes())
    assert [n.op_type for n in compiled.graph.node] == ["EPContext", *left]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("feature-level-8", "PREFER_RECOMPILATION"),
        ("feature-level-4", "OPTIMAL"),
        ("feature-level-2", "UNSUPPORTED"),  # Sin needs 3
        ("sample-float", "PREFER_RECOMPILATION"),
    ],
)
def test_the_compatibility_is_that_of_the_phone(phones, name: str, answer: str):
    compiler = onnxruntime.ModelCompiler(
        on(phones["feature-level-4"]), chain(), embed_compiled_data_into_model=True
    )
    compiled = onnx.load_from_string(compiler.compile_to_bytes())
    (info,) = (p.value for p in compiled.metadata_props if p.key.startswith("ep_compat"))
    found = ort.get_model_compatibility_for_ep_devices([phones[name]], info)
    assert found.name.endswith(answer)


def refusal(options: onnxruntime.SessionOptions, capfd: pytest.CaptureFixture[str]) -> str:
    """The message of a session without provider; before 1.32, ONNX Runtime prints it."""
    try:
        session = onnxruntime.InferenceSession(chain(), options)
    except Fail as error:
        return str(error)
    assert session.get_providers() == ["CPUExecutionProvider"]
    return capfd.readouterr().out


@pytest.mark.filterwarnings("ignore:Specified 'providers'")  # onnxruntime, while falling back
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_level": "6"}, "feature_level is 6, but the virtual device feature-level-5 off"),
        ({"runtime": "system"}, "runtime is set by the virtual device feature"),
    ],
)
def test_options_of_another_device_are_refused(phones, capfd, given: dict[str, str], message: str):
    assert message in refusal(on(phones["feature-level-5"], **given), capfd)


@pytest.mark.filterwarnings("ignore:Specified 'providers'")
def test_two_phones_at_once_are_refused(phones, capfd: pytest.CaptureFixture[str]):
    chosen = settings()
    chosen.add_provider_for_devices([phones["feature-level-1"], phones["feature-level-2"]], {})
    said = "2 virtual devices are selected; select one, by its metadata nnapi_device: feature-level"
    assert said in refusal(chosen, capfd)


@pytest.mark.parametrize("policy", ["DEFAULT", "PREFER_NPU", "MAX_PERFORMANCE"])
def test_no_policy_takes_nodes_for_a_phone(phones, policy: str):
    chosen = settings()
    chosen.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    policies = onnxruntime.OrtExecutionProviderDevicePolicy
    chosen.set_provider_selection_policy(getattr(policies, policy))
    assert taken(onnxruntime.InferenceSession(chain(), chosen)) == set()


def test_the_provider_itself_is_appended_beside_the_phones(phones):
    chosen = settings()
    ep_nnapi.append_execution_provider(chosen, feature_level=8)
    session = onnxruntime.InferenceSession(chain(), chosen)
    assert session.get_providers() == [NAME, "CPUExecutionProvider"]


def test_a_profile_in_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request):
    """Registered again, the library shows what is in the folder now."""
    shutil.copy(path_of("sample-quant"), tmp_path / "my-phone.json.gz")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    phones = request.getfixturevalue("phones")
    assert list(phones)[DEVICES:] == ["my-phone"]
    assert not taken(onnxruntime.InferenceSession(chain(), on(phones["my-phone"])))


def test_the_example_of_the_documents(tmp_path: Path):
    """In a process of its own: it leaves the library registered."""
    (example,) = [b for b in blocks(ROOT / "docs" / "hosts.md", "python") if "virtual" in b]
    (tmp_path / "build").mkdir()
    (tmp_path / "models").symlink_to(ROOT / "models")
    command = [sys.executable, "-c", example]
    done = ran(*command, status=None, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "feature-level-5" in done.stdout
    compiled = onnx.load(tmp_path / "build" / "level_5.onnx", load_external_data=False)
    assert [n.op_type for n in compiled.graph.node] == ["EPContext"]


def test_a_folder_that_does_not_exist_ends_the_registration(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(FOLDER_VARIABLE, "/nowhere/profiles")
    with pytest.raises(Fail, match="EP_NNAPI_DEVICE_PROFILES is /nowhere/profiles: No such file"):
        onnxruntime.register_execution_provider_library(REGISTERED, ep_nnapi.get_library_path())


LEVELS = [f"feature-level-{level}" for level in range(8, 0, -1)]


@pytest.mark.parametrize(
    ("registered", "entries", "expected"),
    [
        ("nnapi", [], ["-"]),
        ("nnapi", ["allow_virtual_devices=0"], ["-"]),
        ("nnapi", ["allow_virtual_devices=1"], ["-", *LEVELS]),
        (REGISTERED, [], LEVELS),
    ],
)
def test_the_environment_allows_virtual_devices(registered, entries, expected, tmp_path):
    """A host that sets allow_virtual_devices gets them beside the provider of this machine."""
    program = [sys.executable, ENVIRONMENT, wheels_library(), ep_nnapi.get_library_path()]
    env = os.environ | {FOLDER_VARIABLE: str(tmp_path)}
    found = ran(*program, registered, *entries, status=None, env=env)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split() == expected


def test_beside_a_virtual_registration_another_offers_no_second_set(phones):
    """ONNX Runtime allows virtual devices in its environment while such a name is registered."""
    assert environment_entries() == {ALLOW_VIRTUAL: "1"}
    before = len(onnxruntime.get_ep_devices())
    onnxruntime.register_execution_provider_library("nnapi.plain", ep_nnapi.get_library_path())
    added = onnxruntime.get_ep_devices()[before:]
    assert [d.ep_metadata.get("nnapi_device") for d in added] == [None]
    onnxruntime.unregister_execution_provider_library("nnapi.plain")


def test_more_profiles_than_onnxruntime_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Two factories have room for eight profiles; the damaged one is told and counts not."""
    for i in range(DEVICES + 1):
        shutil.copy(path_of("level-1"), tmp_path / f"phone-{i}.json.gz")
    (tmp_path / "broken.json").write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    factories, (damaged, too_many) = virtual_factories(2)
    assert len(factories) == 2
    assert damaged.startswith(f"no virtual device: device profile {tmp_path / 'broken.json'}")
    assert too_many.startswith("ONNX Runtime takes 16 virtual devices: those after phone-7 are le")
    factories, _ = virtual_factories(3)
    assert len(factories) == 3


def test_the_number_of_devices_is_counted_when_one_is_chosen():
    (first, *_), _ = virtual_factories(1)
    with pytest.raises(OptionError, match="0 virtual devices are selected"):
        first.options_on([], {})
