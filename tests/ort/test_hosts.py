"""Programs that are not Python's use the provider through ONNX Runtime's C library."""

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from ep_nnapi.sessions.cpu import session_of
from models.zoo import MODELS, sample_inputs
from tests.ort.programs import EXAMPLES, HOST, PLUGIN, ROOT, base_python, compiled, run
from tests.programs import Done, ran

DIGITS = ROOT / "models" / "digits.onnx"
SAMPLES = np.load(ROOT / "models" / "digits" / "samples.npz")
TOLERANCE = 1e-5  # float32 sums of the two implementations, added in different orders
pytestmark = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("g++")), reason="no C and C++ compilers"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def host(folder: Path) -> Path:
    return compiled(folder, HOST, "cc", "-std=gnu11", "-g")


def hosted(
    host: Path,
    folder: Path,
    *mode: object,
    timeout: int = 120,
    wrapper: tuple[str, ...] = (),
    **environment: str,
) -> Done:
    """The program `host` on a digit; its result is that of the CPU provider."""
    pixels, output = folder / "pixels.raw", folder / "scores.raw"
    SAMPLES["images"][0].tofile(pixels)
    output.unlink(missing_ok=True)
    arguments = (PLUGIN, DIGITS, pixels, output, "scores", 4, 1, 1, 8, 8)
    done = run(*wrapper, host, *arguments, *mode, timeout=timeout, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    expected = session_of(DIGITS.read_bytes()).run(None, {"image": SAMPLES["images"][0][None]})[0]
    np.testing.assert_allclose(np.fromfile(output, np.float32), expected[0], rtol=TOLERANCE)
    return done


def test_the_library_has_no_symbol_of_python():
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    listing = ran("nm", "-D", PLUGIN)
    symbols = [line.split()[-2:] for line in listing.stdout.splitlines()]
    assert not [name for _, name in symbols if "Py" in name]
    expected = {"CreateEpFactories", "ReleaseEpFactory"}
    assert {name for kind, name in symbols if kind == "T"} == expected


@pytest.mark.parametrize(
    ("source", "compiler"),
    [("digits.c", ("cc", "-std=c11")), ("digits.cpp", ("g++", "-std=c++17"))],
)
def test_the_examples_read_digits(folder: Path, source: str, compiler: tuple[str, ...]):
    program = compiled(folder, EXAMPLES / source, *compiler)
    image, label = SAMPLES["images"][7], SAMPLES["labels"][7]
    done = run(program, PLUGIN, DIGITS, text=" ".join(map(str, image.ravel())))
    assert (done.returncode, done.stderr) == (0, "")
    *scores, digit = done.stdout.splitlines()
    assert digit == f"digit {label}"
    expected = session_of(DIGITS.read_bytes()).run(None, {"image": image[None]})[0][0]
    np.testing.assert_allclose([float(s) for s in scores], expected, rtol=TOLERANCE)


@pytest.mark.long
def test_mobilenet_v2_has_the_results_of_the_cpu_provider(host: Path, tmp_path: Path):
    model = MODELS["mobilenet_v2"](size=96)
    onnx.save(model, tmp_path / "model.onnx")
    (image,) = sample_inputs(model).values()
    image.tofile(tmp_path / "image.raw")
    name = model.graph.output[0].name
    assert model.graph.input[0].name == "image"
    files = (tmp_path / "model.onnx", tmp_path / "image.raw", tmp_path / "scores.raw")
    done = run(host, PLUGIN, *files, name, 4, *image.shape, "once")
    assert (done.returncode, done.stderr) == (0, "")
    expected = session_of(model.SerializeToString()).run(None, {"image": image})[0].ravel()
    # 53 layers of float32 sums, added in different orders
    found = np.fromfile(tmp_path / "scores.raw", np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize(
    "mode",
    [("threads", 20), ("again", 3), ("exit",)],
    ids=["16 threads", "registered again", "exit with everything alive"],
)
def test_a_host(host: Path, folder: Path, mode: tuple[object, ...]):
    """Sixteen threads of the host have equal results; a session outlives its registration."""
    hosted(host, folder, *mode)


@pytest.mark.parametrize("mode", ["once", "exit"])
def test_a_receipt_is_written(mode: str, host: Path, folder: Path, tmp_path: Path):
    """When the session is released; not of one that is alive when the process ends."""
    path = tmp_path / "receipt.json"
    hosted(host, folder, mode, RECEIPT=str(path))
    if mode == "exit":
        assert not path.exists()
        return
    receipt = json.loads(path.read_bytes())
    assert receipt["versions"]["onnxruntime"] == onnxruntime.__version__
    assert receipt["model"]["sha256"] == hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    (cluster,) = receipt["clusters"]
    assert (cluster["device"], cluster["runs"], cluster["device_runs"]) == ("host-cpu", 1, 1)
    assert cluster["compiled"]["operations"] > 0


@pytest.mark.long
def test_a_thousand_sessions_leak_nothing(host: Path, folder: Path):
    """The later 500 sessions: 2 MiB are less than 4.2 KiB for each, which a node alone takes."""
    done = hosted(host, folder, "sessions", 1000, timeout=550)
    assert int(done.stdout) < 2048, f"{done.stdout} KiB"


@pytest.mark.long
def test_valgrind_finds_no_error_in_the_plugin(host: Path, folder: Path):
    """From start to exit. ONNX Runtime, CPython and the loader have findings of their own."""
    tool = shutil.which("valgrind")
    if tool is None:
        pytest.skip("no valgrind")
    log = folder / "valgrind.log"
    malloc = ("/usr/bin/env", "PYTHONMALLOC=malloc")  # so that valgrind sees every allocation
    wrapper = (*malloc, tool, "--quiet", "--leak-check=no", f"--log-file={log}")
    hosted(host, folder, "once", wrapper=wrapper, timeout=590)
    assert not re.findall(r"Invalid (?:write|free).*|.*/ep_nnapi/.*\.so.*", log.read_text())


def test_a_library_copied_away_uses_the_environment_that_is_named(host: Path, tmp_path: Path):
    """As applications do that keep all their libraries in one folder."""
    library = tmp_path / Path(PLUGIN).name
    shutil.copy(PLUGIN, library)
    pixels = tmp_path / "pixels.raw"
    SAMPLES["images"][0].tofile(pixels)
    arguments = (host, library, DIGITS, pixels, tmp_path / "out", "scores", 4, 1, 1, 8, 8, "once")
    assert run(*arguments, EP_NNAPI_PYTHON=sys.executable).returncode == 0
    done = run(*arguments, EP_NNAPI_PYTHON="/bin/sh")
    assert (done.returncode, done.stderr) == (
        1,
        "libonnxruntime_providers_nnapi.so: EP_NNAPI_PYTHON is not the path of a Python 3 "
        "executable (<environment>/bin/python)\n",
    )


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("EP_NNAPI_LIBPYTHON", "/nowhere/libpython.so", r"no shared libpython was found \("),
        ("EP_NNAPI_PYTHON", base_python(), "the Python package ep_nnapi cannot be used: No mod"),
    ],
)
def test_without_a_usable_python_registration_fails_with_the_reason(
    host: Path, tmp_path: Path, variable: str, value: str, reason: str
):
    alone = tmp_path / Path(PLUGIN).name  # beside it is no package
    shutil.copy(PLUGIN, alone)
    (tmp_path / "pixels.raw").write_bytes(b"")
    files = (DIGITS, tmp_path / "pixels.raw", tmp_path / "out", "scores", 4, 1, 1, 8, 8)
    done = run(host, alone, *files, "once", **{variable: value})
    assert done.returncode == 1
    assert re.match(f"libonnxruntime_providers_nnapi.so: {reason}", done.stderr), done.stderr
