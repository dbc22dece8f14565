"""Sessions whose runtime is an NNAPI library, and what memory they hold."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import ep_nnapi
from ep_nnapi.cli.main import main
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.library import binding
from ep_nnapi.sessions.cpu import session_of
from models import zoo
from tests.end_to_end.sessions import nnapi_session
from tests.end_to_end.sessions import nnapi_session as session
from tests.end_to_end.test_zoo import built
from tests.onnx_graph import serialized
from tests.programs import ran
from tests.runtimes import host_only

DIGITS = "models/digits.onnx"
LIBRARY = ep_nnapi.libneuralnetworks_path()
IMAGES = np.load("models/digits/samples.npz")["images"]


def scores(**options: object) -> np.ndarray:
    made = session(DIGITS, **options)
    return np.concatenate([made.run(None, {"image": i[None]})[0] for i in IMAGES])


@pytest.mark.parametrize("level", [1, 2, 3, 4, 8])
def test_digits_are_bit_identical_to_the_host_runtime(level: int) -> None:
    got = scores(runtime=LIBRARY, feature_level=level)
    np.testing.assert_array_equal(got, scores(feature_level=level))


LARGE = {"resnet18", "resnet50", "efficientnet_lite0", "mobilenet_v2", "mobilenet_v3_large"}
RELAXED = {"detector_roialign", "denoiser_lstm", "kws_dscnn"}
ALIKE = [
    pytest.param(
        name,
        flags,
        marks=[pytest.mark.long] * (name not in RELAXED if flags else name in LARGE),
        id=f"{'relaxed' if flags else ''}-{name}",
    )
    for name in zoo.MODELS
    for flags in (0, ep_nnapi.NnapiFlag.USE_FP16)
]


@pytest.mark.parametrize(("name", "flags"), ALIKE)
def test_the_zoo_is_bit_identical_to_the_host_runtime(name: str, flags: int) -> None:
    """Relaxed: the C API computes in float32, as Android's own CPU device does."""
    model = built(name, published=False)
    data, feeds = model.SerializeToString(), zoo.sample_inputs(model)
    got = session(data, flags=flags, runtime=LIBRARY).run(None, feeds)
    want = session(data, flags=flags, relaxed="precise").run(None, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fresh_process_without_anything_loaded() -> None:
    code = (
        "import numpy, onnxruntime, ep_nnapi\n"
        "options = onnxruntime.SessionOptions()\n"
        f"ep_nnapi.append_execution_provider(options, runtime={LIBRARY!r})\n"
        f"session = onnxruntime.InferenceSession({DIGITS!r}, options)\n"
        "image = numpy.load('models/digits/samples.npz')['images'][3:4]\n"
        "print(session.run(None, {'image': image})[0].argmax())\n"
    )
    command = [sys.executable, "-c", code]
    done = ran(*command, status=None, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


OPTIONS = {
    "preference": "sustained_speed",
    "priority": "high",
    "compilation_timeout": 100,
    "execution_timeout": 100.0,
    "device": "cpu",
}


@pytest.mark.parametrize("runtime", ["host", LIBRARY], ids=["host", "library"])
def test_every_option_of_compilations_and_runs(runtime: str, tmp_path: object) -> None:
    want = scores()
    for _ in range(2):  # the second session from the cache
        got = scores(runtime=runtime, cache_dir=f"{tmp_path}/cache", **OPTIONS)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": DIGITS}, "cannot be loaded"),
        ({"runtime": "/no/such.so"}, "it must be host, .* or the path of a file"),
        ({"runtime": LIBRARY, "device": "gpu"}, "device 'gpu' is unknown; there are .*nnapi-ref"),
        ({"runtime": LIBRARY, "flags": "CPU_DISABLED"}, "CPU_DISABLED leaves no device"),
        ({"cache_dir": f"{DIGITS}/cache"}, "cannot be created"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_used_is_refused_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        session(DIGITS, **options)


def test_the_systems_library_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The linker's own search first, then the folders of Android's releases."""
    assert binding.SYSTEM_PATHS[0] == "libneuralnetworks.so"
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ("/no/libneuralnetworks.so", LIBRARY))
    assert binding.load.__wrapped__("system").path == LIBRARY
    monkeypatch.setattr(binding, "SYSTEM_PATHS", ("/no/libneuralnetworks.so",))
    with pytest.raises(OptionError, match=r"there is no libneuralnetworks.so, which Android has"):
        binding.load.__wrapped__("system")


def test_a_library_without_nnapi_functions_is_refused() -> None:

    maps = Path("/proc/self/maps").read_text().splitlines()
    libm = next(line.split()[-1] for line in maps if "/libm" in line)
    with pytest.raises(OptionError, match="it has no ANeuralNetworksModel_create"):
        session(DIGITS, runtime=libm)


def test_the_command_line_runs_on_a_library(shows, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runtime", LIBRARY, "--input", "models/digits/samples.npz", "--no-latency"]
    assert "19 of 20 right" in shows("run", DIGITS, *arguments)
    assert main(["check", DIGITS, "--runtime", "phone"]) == 2
    assert "runtime is 'phone'" in capfd.readouterr().err


def test_run_says_what_the_device_measured(shows) -> None:
    """By its own clock."""
    found = json.loads(shows("run", DIGITS, "--runtime", LIBRARY, "--json"))
    assert found["fallback_runs"] == 0
    (measured,) = found["device_times"]
    assert (measured["cluster"], measured["device"]) == (0, "nnapi-reference")
    assert 0 < measured["on_hardware"] <= measured["in_driver"]
    printed = shows("run", DIGITS, "--runtime", LIBRARY, "--no-latency")
    assert re.search(r"Cluster 0, as nnapi-reference measured it: .* ms on hardware, ", printed)


@host_only
def test_the_host_runtime_measures_nothing(shows) -> None:
    assert json.loads(shows("run", DIGITS, "--json"))["device_times"] == []


SELF = Path("/proc/self")

PROGRAM = """
import ctypes, gc, json, sys
import numpy as np
import onnxruntime as ort
import ep_nnapi

def session(path):
    options = ort.SessionOptions()
    options.enable_cpu_mem_arena = False
    chosen = {"runtime": sys.argv[2], "device": "nnapi-reference"}  # host-cpu packs weights anew
    ep_nnapi.append_execution_provider(options, **chosen)
    return ort.InferenceSession(path, options)

def megabytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = (line.split() for line in open("/proc/self/smaps_rollup"))
    sizes = {name: int(size) / 1024 for name, size, *_ in lines if name.startswith("Pss")}
    return {name: sizes[f"Pss_{name}:"] for name in ("Anon", "Shmem")}

digits = session("models/digits.onnx")  # what every session brings with it
digits.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
found = [megabytes()]
made = session(sys.argv[1])
image = np.zeros((1, 3, 224, 224), np.float32)
for _ in range(2):
    made.run(None, {"image": image})
found.append(megabytes())
del made
found.append(megabytes())
print(json.dumps(found))
"""


@pytest.mark.long
def test_resnet50_holds_its_weights_once(tmp_path: Path) -> None:
    """In shared memory; the rest of a session, with its activations, is far less.

    Proportional sizes: the library maps the same pages a second time.
    """
    path = tmp_path / "resnet50.onnx"
    onnx.save(zoo.MODELS["resnet50"](), path)
    weights = path.stat().st_size / 2**20
    command = [sys.executable, "-c", PROGRAM, str(path), LIBRARY]
    done = ran(*command, timeout=500)
    before, held, closed = json.loads(done.stdout)
    assert 0.9 * weights < held["Shmem"] - before["Shmem"] < 1.05 * weights
    assert held["Anon"] - before["Anon"] < 0.25 * weights
    assert closed["Shmem"] == before["Shmem"]
    assert closed["Anon"] - before["Anon"] < 0.15 * weights


def descriptors() -> int:
    return len(os.listdir(SELF / "fd"))


def maps() -> list[str]:
    """Mappings of the weights' file."""
    return [line for line in (SELF / "maps").read_text().splitlines() if "ep-nnapi weights" in line]


def test_closed_sessions_leave_no_descriptor_and_no_mapping() -> None:
    def cycle() -> ort.InferenceSession:
        made = session("models/digits.onnx", runtime=LIBRARY)
        made.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
        return made

    del (made := {"first": cycle()})["first"]  # what a process keeps of the first session
    before, mapped = descriptors(), maps()
    for _ in range(3):
        made["session"] = cycle()
        assert len(maps()) > len(mapped)
        del made["session"]
        assert descriptors() == before
        assert maps() == mapped


def shared_weight(size: int = 50_000) -> bytes:
    """Two clusters, on both sides of a node for the CPU, that add the same weight."""
    text = f"""(float[{size}] x) => (float[{size}] y) {{
        [first] a = Add (x, w) [between] b = Erf (a) [second] y = Add (b, w) }}"""
    return serialized(text, w=np.arange(size, dtype=np.float32))


def test_clusters_share_a_weight() -> None:
    before = maps()
    made = nnapi_session(shared_weight(), runtime=LIBRARY, exclude="Erf")
    new = {line.split()[0] for line in maps()} - {line.split()[0] for line in before}
    sizes = [int(b, 16) - int(a, 16) for a, b in (r.split("-") for r in new)]
    assert set(sizes) == {-(-200_000 // 4096) * 4096}  # one weight, mapped here and by the library
    assert len(sizes) == 2
    x = np.linspace(-1, 1, 50_000, dtype=np.float32)
    want = session_of(shared_weight())
    got, expected = (s.run(None, {"x": x})[0] for s in (made, want))
    np.testing.assert_array_equal(got, expected)
