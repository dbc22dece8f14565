"""Prepared models in sessions with the plugin: the same bits as with Python's provider."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as state

import ep_nnapi
from models.quantized import quantized
from models.zoo import MODELS
from tests.native import sessions
from tests.onnx_graph import parsed
from tests.programs import python

ROOT = Path(__file__).resolve().parents[2]
LEVELS = range(1, 9)
IMAGE = {"image": np.load(ROOT / "models" / "digits" / "samples.npz")["images"][:1]}


def digits() -> onnx.ModelProto:
    return onnx.load(ROOT / "models" / "digits.onnx")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("embed", [False, True])
def test_digits(level: int, embed: bool, tmp_path: Path) -> None:
    sessions.run_both(
        sessions.prepared(digits(), tmp_path, feature_level=level, embed=embed), IMAGE
    )


@pytest.mark.parametrize("level", [1, 3, 4, 8])
@pytest.mark.parametrize("scheme", ["u8u8", "s8s8"])
def test_quantized_digits(scheme: str, level: int, tmp_path: Path) -> None:
    sessions.run_both(
        sessions.prepared(quantized("digits", scheme), tmp_path, feature_level=level), IMAGE
    )


def test_it_needs_neither_the_provider_nor_numpy() -> None:
    """Of this package: onnxruntime itself imports numpy, and so does the library's runtime."""
    code = f"""
import sys
import ep_nnapi
path = ep_nnapi.context_library_path()
assert not {{"numpy", "onnx", "onnxruntime", "ep_nnapi.ort"}} & set(sys.modules)
import onnxruntime
onnxruntime.register_execution_provider_library("c", path)
assert "{sessions.EP_NAME}" in {{d.ep_name for d in onnxruntime.get_ep_devices()}}
assert "ep_nnapi.ort" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_session_outlives_the_registration(tmp_path: Path) -> None:
    """It runs and is released after the library was unregistered, which may come back."""
    path = sessions.prepared(digits(), tmp_path)
    code = f"""
import sys
import numpy as np
import onnxruntime
from tests.native.sessions import EP_NAME, devices, session
made = session({str(path)!r})
image = {{"image": np.load("models/digits/samples.npz")["images"][:1]}}
(before,) = made.run(None, image)
for _ in range(2):
    onnxruntime.unregister_execution_provider_library(EP_NAME)
    assert np.array_equal(made.run(None, image)[0], before)
    other = session({str(path)!r})
    assert np.array_equal(other.run(None, image)[0], before)
    del other
onnxruntime.unregister_execution_provider_library(EP_NAME)
del made
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT)


def test_devices_are_nnapis() -> None:
    found = {d.ep_metadata["nnapi_device"]: d for d in sessions.devices()}
    assert set(found) == {d.name for d in ep_nnapi.devices()}
    reference = found[sessions.REFERENCE]
    assert reference.ep_metadata["nnapi_type"] == "CPU"
    assert reference.ep_metadata["nnapi_feature_level"] == "8"
    assert reference.device.type == onnxruntime.OrtHardwareDeviceType.CPU


FAILING = """
import re
from pathlib import Path
import cffi
import ep_nnapi
ffi = cffi.FFI()
ffi.cdef(re.sub("^#.*", "", Path("native/ort_api.h").read_text(), flags=re.MULTILINE))
made = "OrtStatus *CreateEpFactories"
ffi.cdef(f"{made}(void *, OrtApiBase *, void *, OrtEpFactory **, size_t, size_t *);")
library, failed, first = ffi.dlopen(ep_nnapi.context_library_path()), ffi.cast("OrtStatus *", 8), 64
api, ep, base = ffi.new("OrtApi *"), ffi.new("OrtEpApi *"), ffi.new("OrtApiBase *")
version, released, kept = ffi.new("char[]", b"1.25.0"), [], []

def create(factory, hardware, facts, options, out):
    out[0] = ffi.cast("OrtEpDevice *", first)
    return failed if len(kept) > size else kept.append(out) or ffi.NULL

functions = {
    (base, "GetApi"): lambda number: api,
    (base, "GetVersionString"): lambda: version,
    (api, "GetEpApi"): lambda: ep,
    (api, "CreateKeyValuePairs"): lambda out: None,
    (api, "AddKeyValuePair"): lambda pairs, key, value: None,
    (api, "ReleaseKeyValuePairs"): lambda pairs: None,
    (api, "HardwareDevice_Type"): lambda hardware: 0,
    (ep, "CreateEpDevice"): create,
    (ep, "ReleaseEpDevice"): lambda device: released.append(int(ffi.cast("uintptr_t", device))),
}
for (table, name), function in functions.items():
    kept.append(ffi.callback(ffi.typeof(getattr(table, name)), function))
    setattr(table, name, kept[-1])
size, count = len(kept), ffi.new("size_t *")
factories, devices = ffi.new("OrtEpFactory *[1]"), ffi.new("OrtEpDevice *[8]")
hardware = ffi.new("const OrtHardwareDevice *[1]", [ffi.cast("OrtHardwareDevice *", 8)])
assert library.CreateEpFactories(ffi.NULL, base, ffi.NULL, factories, 1, count) == ffi.NULL
status = factories[0].GetSupportedDevices(factories[0], hardware, 1, devices, 8, count)
assert (status, count[0], released) == (failed, 0, [first]), (status, count[0], released)
"""


def test_a_list_of_devices_that_fails_midway_releases_its_beginning() -> None:
    python(FAILING)


def test_the_device_of_the_session_is_used(tmp_path: Path) -> None:
    """Without the option `device`."""
    path = sessions.prepared(digits(), tmp_path)
    (host,) = (d for d in sessions.devices() if d.ep_metadata["nnapi_device"] == "host-cpu")
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices([host], {})
    (scores,) = onnxruntime.InferenceSession(str(path), options).run(None, IMAGE)
    assert scores.argmax() == 0


def test_by_name_in_providers(tmp_path: Path) -> None:
    path = sessions.prepared(digits(), tmp_path)
    sessions.devices()
    made = onnxruntime.InferenceSession(
        str(path),
        providers=[(sessions.EP_NAME, {"device": sessions.REFERENCE}), "CPUExecutionProvider"],
    )
    assert made.run(None, IMAGE)[0].argmax() == 0


def test_threads_share_a_session(tmp_path: Path) -> None:
    made = sessions.session(sessions.prepared(quantized("digits", "u8s8"), tmp_path))
    images = np.load(ROOT / "models" / "digits" / "samples.npz")["images"]
    alone = [made.run(None, {"image": image[None]})[0] for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = [*pool.map(lambda i: made.run(None, {"image": i[None]})[0], [*images] * 3)]
    assert all(np.array_equal(a, b) for a, b in zip(alone * 3, together, strict=True))


def test_int64_scalars_and_bools_cross(tmp_path: Path) -> None:
    """Indexes come as int64, one more output is the same tensor in another layout."""
    text = """(float[3,5] table, int64 which, float limit) => (bool[5] above, int64 best) {
        row = Gather <axis = 0> (table, which) above = Greater (row, limit)
        best = ArgMax <axis = 0, keepdims = 0> (row) }"""
    path = sessions.prepared(parsed(text), tmp_path)
    table = np.arange(15, dtype=np.float32).reshape(3, 5)[:, ::-1].copy()
    feeds = {"table": table, "which": np.array(2), "limit": np.array(11.5, np.float32)}
    sessions.run_both(path, feeds)
    above, best = sessions.session(path).run(None, feeds)
    assert above.tolist() == (table[2] > 11.5).tolist()
    assert best == 0


def spoil_weights(path: Path) -> None:
    (weights,) = path.parent.glob("*.weights")
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut_weights(path: Path) -> None:
    (weights,) = path.parent.glob("*.weights")
    weights.write_bytes(weights.read_bytes()[:-64])


def remove_weights(path: Path) -> None:
    (weights,) = path.parent.glob("*.weights")
    weights.unlink()


def link_weights(path: Path) -> None:
    (weights,) = path.parent.glob("*.weights")
    weights.rename(path.parent.parent / "elsewhere")
    weights.symlink_to(path.parent.parent / "elsewhere")


def change_model(path: Path) -> None:
    proto = onnx.load(path)
    proto.doc_string = "changed"
    onnx.save(proto, path)


LONG_AGO = (1_000_000_000, 1_000_000_000)


@pytest.fixture(autouse=True, scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared model that is some seconds old when a later test wants it so."""
    path = sessions.prepared(digits(), tmp_path_factory.mktemp("kept"))
    for file in path.parent.iterdir():
        os.utime(file, LONG_AGO)
    return path


def test_files_that_change_after_a_session_are_refused(kept: Path) -> None:
    """Sessions of one process do not check files again that did not change since: these did."""
    (weights,) = kept.parent.glob("*.weights")
    data, age = weights.read_bytes(), time.time() - kept.stat().st_ctime
    time.sleep(max(0, 3.1 - age))  # until a change of the file now is one that its times show
    for _ in range(3):
        assert sessions.session(kept).run(None, IMAGE)[0].argmax() == 0
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(weights, LONG_AGO)
    with pytest.raises(Exception, match="weights are corrupt"):
        sessions.session(kept)
    weights.write_bytes(data)
    assert sessions.session(kept).run(None, IMAGE)[0].argmax() == 0
    change_model(kept)
    os.utime(kept, LONG_AGO)
    with pytest.raises(Exception, match="was changed"):
        sessions.session(kept)


@pytest.mark.parametrize("make", [sessions.session, sessions.python_session])
def test_weights_that_are_replaced_as_a_whole_stay_a_sessions(make, tmp_path):
    path = sessions.prepared(MODELS["mlp"](), tmp_path)
    made = make(path)
    (entering,) = made.get_inputs()
    feeds = {entering.name: np.ones(entering.shape, np.float32)}
    before = made.run(None, feeds)
    (weights,) = path.parent.glob("*.weights")
    (tmp_path / "new").write_bytes(bytes(weights.stat().st_size))
    os.replace(tmp_path / "new", weights)
    assert np.array_equal(made.run(None, feeds)[0], before[0])
    with pytest.raises(Exception, match="weights are corrupt"):
        make(path)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_weights, "the context's weights are corrupt; prepare the model again"),
        (cut_weights, "is truncated; prepare the model again"),
        (remove_weights, "No such file or directory"),
        (link_weights, "are outside of the model's folder"),
        (change_model, "is corrupt or was changed; prepare the model again"),
    ],
)
def test_a_damaged_model_is_refused(spoil: Callable[[Path], None], says: str, tmp_path: Path):
    path = sessions.prepared(digits(), tmp_path)
    sessions.session(path)
    spoil(path)
    with pytest.raises(Exception, match=f"nnapi_0: .*{says}") as refused:
        sessions.session(path)
    assert "\n" not in str(refused.value).strip()


def test_large_weights_are_checked_too(tmp_path: Path) -> None:
    """In a thread while NNAPI compiles; a device that does not compile them says nothing else."""
    path = sessions.prepared(MODELS["mlp"](), tmp_path)
    (weights,) = path.parent.glob("*.weights")
    assert weights.stat().st_size > 1 << 17
    sessions.session(path)
    spoil_weights(path)
    with pytest.raises(Exception, match="nnapi_0: the context's weights are corrupt"):
        sessions.session(path)


def test_a_model_in_memory_needs_embedded_weights(tmp_path: Path) -> None:
    embedded = sessions.prepared(digits(), tmp_path / "a", embed=True)
    assert sessions.session(embedded.read_bytes()).run(None, IMAGE)[0].argmax() == 0
    external = sessions.prepared(digits(), tmp_path / "b")
    with pytest.raises(Exception, match="load the prepared model from its file"):
        sessions.session(external.read_bytes())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"device": "npu0"}, "device 'npu0' is unknown; there are "),
        ({"device": "gpu"}, "device 'gpu' is unknown"),
        ({"runtime": "/nowhere/libneuralnetworks.so"}, "runtime: /nowhere/libneuralnetworks.so"),
        ({"runtime": "libm.so.6"}, "libm.so.6 is no NNAPI library"),
        ({"priority": "urgent"}, "priority is 'urgent'; it must be one of low, medium, high"),
        ({"execution_timeout": "0"}, "execution_timeout is '0'; it must be a number of seconds"),
        ({"execution_timeout": "1e3"}, "execution_timeout is '1e3'"),
        ({"speed": "high"}, "option 'speed' is unknown; there are runtime, device"),
    ],
)
def test_bad_options_are_said(options: dict[str, str], says: str, tmp_path: Path) -> None:
    path = sessions.prepared(digits(), tmp_path)
    with pytest.raises(Exception, match=says):
        sessions.session(path, **options)


def test_good_options_are_taken(tmp_path: Path) -> None:
    """A device may be given by its type; timeouts have fractions."""
    path = sessions.prepared(digits(), tmp_path)
    options = {"preference": "sustained_speed", "priority": "low", "device": "cpu"}
    timeouts = {"compilation_timeout": "100", "execution_timeout": "99.5"}
    made = sessions.session(path, **options, **timeouts, fallback="none", runtime=sessions.LIBRARY)
    assert made.run(None, IMAGE)[0].argmax() == 0


def test_other_nodes_are_left_alone(tmp_path: Path) -> None:
    """Nodes that are not EPContext, and contexts of others."""
    path = tmp_path / "digits.onnx"
    onnx.save(digits(), path)
    assert sessions.session(path).run(None, IMAGE)[0].argmax() == 0  # on the CPU provider
    proto = onnx.load(sessions.prepared(digits(), tmp_path))
    for attribute in proto.graph.node[0].attribute:
        if attribute.name == "source":
            attribute.s = b"QNNExecutionProvider"
    with pytest.raises(Exception, match="EPContext"):
        sessions.session(proto.SerializeToString())


@pytest.mark.parametrize(
    ("info", "answer"),
    [
        ("format=5 feature_level=8", 1),
        ("format=5 feature_level=9", 3),
        ("format=2 feature_level=1", 3),
        ("", 0),
        ("format=5 feature_level=0 alternatives=nnapi:8,nnapi:4,cpu", 1),
        ("format=5 feature_level=0 alternatives=litert,cpu", 2),
        ("format=2 feature_level=0 alternatives=nnapi:1,cpu", 3),
        ("of another provider", 0),
    ],
)
def test_compatibility_is_answered_before_a_model_is_loaded(info: str, answer: int) -> None:
    """1: supported, 2: without NNAPI, 3: unsupported, 0: not of this provider.

    Source: OrtCompiledModelCompatibility.
    """
    assert compatibility(sessions.devices()[0], info) == answer


def test_a_prepared_model_has_the_entry_for_it(tmp_path: Path) -> None:
    proto = onnx.load(sessions.prepared(digits(), tmp_path, feature_level=3))
    entries = {e.key: e.value for e in proto.metadata_props}
    assert entries[f"ep_compatibility_info.{sessions.EP_NAME}"] == "format=5 feature_level=1"


def compatibility(device: onnxruntime.OrtEpDevice, info: str) -> int:
    """OrtApi.GetModelCompatibilityForEpDevices."""
    return int(state.get_model_compatibility_for_ep_devices([device], info))
