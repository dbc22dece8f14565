"""`bundle`: what it writes, that its scripts run the model on a phone, and what it refuses."""

import hashlib
import shutil
import stat
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ep_nnapi
from ep_nnapi.bundling.bundle import bundle, read_prepared_model
from ep_nnapi.diagnostics.inputs import InputSpec
from ep_nnapi.epcontext.contexts import write_checksum
from ep_nnapi.nnapi.errors import ModelError, OptionError
from models.quantized import quantized
from tests.bundling.phone import ABI, Phone, needs_abi
from tests.native.build import ROOT, needs_compiler
from tests.native.sessions import LIBRARY, REFERENCE, prepared, python_session
from tests.onnx_graph import model_of
from tests.programs import ran

pytestmark = [needs_compiler, needs_abi]
SAMPLES = ROOT / "models" / "digits" / "samples.npz"
IMAGES = np.load(SAMPLES)["images"]
ON_REFERENCE = ("--runtime", LIBRARY, "--device", REFERENCE, "--runs", "1")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_everything_that_the_phone_needs_is_there(digits: Path, native: Path, tmp_path: Path):
    (weights,) = digits.parent.glob("*.weights")
    made = bundle(digits, tmp_path / "out", abi=ABI, native=native)
    written = contents(tmp_path / "out")
    assert set(written) == {
        *("README.md", "SHA256SUMS", "push.sh", "run.sh", "device/run_here.sh"),
        *("device/nnapi_run", "device/model_ctx.onnx", f"device/{weights.name}"),
        *("device/inputs/image.npy", f"jniLibs/{ABI}/libonnxruntime_providers_nnapi_context.so"),
    }
    assert written["device/model_ctx.onnx"] == digits.read_bytes()
    assert written[f"device/{weights.name}"] == weights.read_bytes()
    assert {f.path: (f.bytes, f.sha256) for f in made.files} == {
        name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in written.items()
    }
    assert made.remote == "/data/local/tmp/ep-nnapi/model_ctx"
    assert made.feature_level == 1
    for name in ("push.sh", "run.sh", "device/nnapi_run"):
        assert stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) == 0o755


def test_its_scripts_run_the_model_on_the_phone(digits, native, attached, tmp_path):
    """The outputs that are brought have the bits of a session with the provider."""
    out = tmp_path / "out"
    bundle(digits, out, abi=ABI, native=native, inputs=str(SAMPLES))
    pushed = attached.start(out / "push.sh")
    assert (pushed.returncode, pushed.stderr) == (0, "")
    assert pushed.stdout == "pushed to /data/local/tmp/ep-nnapi/model_ctx\n"
    done = attached.start(out / "run.sh", *ON_REFERENCE)
    assert done.returncode == 0, done.stderr
    assert "nnapi-reference: compiled in " in done.stdout
    (right,) = python_session(digits).run(None, {"image": IMAGES[:1]})
    assert np.load(out / "outputs" / "scores.npy").tobytes() == right.tobytes()
    again = attached.start(out / "run.sh", *ON_REFERENCE)
    assert again.returncode == 0, again.stderr
    assert {p.name for p in (out / "outputs").iterdir()} == {"scores.npy"}


def test_a_failure_on_the_phone_ends_the_script(digits, native, attached, tmp_path):
    out = tmp_path / "out"
    bundle(digits, out, abi=ABI, native=native)
    attached.start(out / "push.sh")
    done = attached.start(out / "run.sh", "--runtime", LIBRARY, "--device", "it's no device")
    assert done.returncode == 3
    assert "device 'it's no device' is unknown" in done.stderr
    assert not (out / "outputs").exists()


def test_a_file_that_arrives_damaged_ends_the_script(digits, native, attached, tmp_path):
    out = tmp_path / "out"
    bundle(digits, out, abi=ABI, native=native)
    (weights,) = (out / "device").glob("*.weights")
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    pushed = attached.start(out / "push.sh")
    assert pushed.returncode == 1
    assert "the files on the phone are not those of SHA256SUMS" in pushed.stderr


def test_names_that_mean_something_to_a_shell(native: Path, attached: Phone, tmp_path: Path):
    """In the model's file, its inputs and its outputs."""
    names = ("a=b$(false)", "c/d'e", '.y "z" `false`')
    sizes = [dict.fromkeys(some, (2, 3)) for some in (names[:2], names[2:])]
    proto = model_of([helper.make_node("Add", *sizes)], *sizes)
    folder = tmp_path / "it's; a $(folder)"
    model = prepared(proto, folder, embed=True)
    strange = model.with_name("it's $HOME & more_ctx.onnx")
    model.rename(strange)
    out = folder / "out bundle"
    feeds = {n: np.full((2, 3), i + 1, np.float32) for i, n in enumerate(names[:2])}
    made = bundle(strange, out, abi=ABI, native=native, inputs=feeds)
    assert made.remote == "/data/local/tmp/ep-nnapi/it%27s%20%24HOME%20%26%20more_ctx"
    pushed = attached.start(out / "push.sh")
    assert (pushed.returncode, pushed.stderr) == (0, "")
    done = attached.start(out / "run.sh", *ON_REFERENCE)
    assert done.returncode == 0, done.stderr
    (output,) = (out / "outputs").iterdir()
    assert np.load(output).tolist() == [[3.0] * 3] * 2


def test_names_that_are_almost_the_same(native: Path, attached: Phone, tmp_path: Path) -> None:
    """Of inputs, each of which has its file; of models, each of which has its folder."""
    names = ("a_b", "a_b-2", "a:b", "a/b", "A_b", ".a_b", "_a_b")
    node = helper.make_node("Sum", names, ["sum"])
    proto = model_of([node], dict.fromkeys(names, (3,)), {"sum": (3,)})
    model = prepared(proto, tmp_path, embed=True)
    feeds = {n: np.full(3, 10**i, np.float32) for i, n in enumerate(names)}
    remotes = set()
    for file in (".m_ctx.onnx", "_m_ctx.onnx", "%2Em_ctx.onnx"):
        shutil.copy(model, tmp_path / file)
        out = tmp_path / f"bundle of {file}"
        remotes.add(bundle(tmp_path / file, out, abi=ABI, native=native, inputs=feeds).remote)
        for script, words in (("push.sh", ()), ("run.sh", ON_REFERENCE)):
            done = attached.start(out / script, *words)
            assert done.returncode == 0, done.stderr
        assert np.load(out / "outputs" / "sum.npy").tolist() == [1111111.0] * 3
    assert len(remotes) == 3


def test_scripts_leave_the_callers_input_alone(digits, native, attached, tmp_path):
    """As in `while read`: adb shell would take the lines that are meant for the loop."""
    out = tmp_path / "out"
    bundle(digits, out, abi=ABI, native=native)
    loop = "while read -r word; do ./push.sh && ./run.sh --devices; echo $word; done"
    variables = attached.environment | {"LD_LIBRARY_PATH": str(Path(LIBRARY).parent)}
    done = ran("sh", "-c", loop, input="one\ntwo\n", cwd=out, env=variables)
    assert {"one", "two"} <= set(done.stdout.splitlines())


def test_a_zip_has_the_same_and_is_replaced(digits: Path, native: Path, tmp_path: Path) -> None:
    bundle(digits, tmp_path / "folder", abi=ABI, native=native)
    out = tmp_path / "bundle.zip"
    out.write_text("of yesterday")
    made = bundle(digits, out, abi=ABI, native=native)
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        unpacked = {i.filename: archive.read(i) for i in archive.infolist()}
        modes = {i.filename: i.external_attr >> 16 & 0o777 for i in archive.infolist()}
    assert unpacked == {f"bundle/{n}": data for n, data in contents(tmp_path / "folder").items()}
    assert modes["bundle/push.sh"] == modes["bundle/device/nnapi_run"] == 0o755
    assert modes["bundle/README.md"] == 0o644
    first = out.read_bytes()
    assert bundle(digits, out, abi=ABI, native=native) == made
    assert out.read_bytes() == first


def test_random_inputs_go_by_their_seed(digits: Path, native: Path, tmp_path: Path) -> None:
    def image(name: str, seed: int) -> bytes:
        bundle(digits, tmp_path / name, abi=ABI, native=native, seed=seed)
        return (tmp_path / name / "device" / "inputs" / "image.npy").read_bytes()

    assert image("a", 1) == image("b", 1) != image("c", 2)


def test_rows_for_more_runs_are_noted(digits: Path, native: Path, tmp_path: Path) -> None:
    made = bundle(digits, tmp_path / "out", abi=ABI, native=native, inputs=str(SAMPLES))
    assert "the inputs have rows for 20 runs; the bundle has the first" in made.notes
    written = np.load(tmp_path / "out" / "device" / "inputs" / "image.npy")
    assert np.array_equal(written, IMAGES[:1])


def test_a_program_for_linux_is_noted(digits: Path, native: Path, tmp_path: Path) -> None:
    made = bundle(digits, tmp_path / "out", abi=ABI, native=native)
    assert any("is built for Linux (it asks for /lib" in note for note in made.notes)


def test_a_model_with_nodes_on_the_cpu_is_for_applications(native: Path, tmp_path: Path) -> None:
    """It has the files and the plugin, and no scripts."""
    digits = onnx.load(ROOT / "models" / "digits.onnx")
    model = prepared(digits, tmp_path / "model", exclude="MaxPool")
    made = bundle(model, tmp_path / "out", abi=ABI, native=native)
    assert made.remote is None
    assert "2 nodes are left to the CPU" in made.notes[0]
    assert {Path(f.path).suffix for f in made.files} == {".md", ".onnx", ".weights", ".so"}
    assert "From the shell" not in (tmp_path / "out" / "README.md").read_text()


def spoiled(digits: Path, folder: Path) -> Path:
    shutil.copytree(digits.parent, folder)
    (weights,) = folder.glob("*.weights")
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    return folder / digits.name


def test_nothing_is_left_of_a_bundle_that_fails(digits: Path, native: Path, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="the context's weights are corrupt"):
        bundle(spoiled(digits, tmp_path / "model"), tmp_path / "out", abi=ABI, native=native)
    with pytest.raises(OptionError, match="no such input file"):
        bundle(digits, tmp_path / "out", abi=ABI, native=native, inputs="nowhere.npy")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("function", ["os.rename", "os.replace", "shutil.copyfile", "numpy.save"])
def test_a_full_disk_is_one_sentence(function, digits, native, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(function, fail)
    out = tmp_path / ("out.zip" if function == "os.replace" else "out")
    with pytest.raises(OptionError, match="No space left on device"):
        bundle(digits, out, abi=ABI, native=native)
    assert [*tmp_path.iterdir()] == []


def test_folders_that_are_there(digits: Path, native: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    bundle(digits, tmp_path / "empty", abi=ABI, native=native)
    with pytest.raises(OptionError, match="empty is there already; remove it or name another"):
        bundle(digits, tmp_path / "empty", abi=ABI, native=native)
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="file is there already"):
        bundle(digits, tmp_path / "file", abi=ABI, native=native)
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(OptionError, match=r"folder.zip is a folder; name another file"):
        bundle(digits, tmp_path / "folder.zip", abi=ABI, native=native)


def test_it_is_public() -> None:
    assert ep_nnapi.bundle is bundle


DIGITS = ROOT / "models" / "digits.onnx"


@pytest.fixture
def model(digits: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(digits.parent, tmp_path / "model")
    return tmp_path / "model" / digits.name


def test_one_cluster(model: Path) -> None:
    (weights,) = model.parent.glob("*.weights")
    found = read_prepared_model(model)
    assert found.files == (model.name, weights.name)
    assert (found.feature_level, found.cpu_nodes) == (1, 0)
    assert found.inputs == (InputSpec("image", np.dtype(np.float32), (1, 1, 8, 8)),)


def test_embedded_weights(tmp_path: Path) -> None:
    model = prepared(onnx.load(DIGITS), tmp_path, embed=True)
    assert read_prepared_model(model).files == (model.name,)


def test_the_highest_level_of_all_clusters(tmp_path: Path) -> None:
    model = prepared(quantized("digits", "s8s8"), tmp_path, exclude="MaxPool")
    found = read_prepared_model(model)
    assert found.inputs is None
    assert found.feature_level == 4
    assert found.cpu_nodes > 0


def with_external_data(model: Path, location: str) -> None:
    """Adds a tensor whose bytes are in another file, as ONNX Runtime writes large models."""
    proto = onnx.load(model)
    tensor = numpy_helper.from_array(np.ones(4000, np.float32), "extra")
    onnx.external_data_helper.set_external_data(tensor, location)
    tensor.ClearField("raw_data")
    proto.graph.initializer.append(tensor)
    model.write_bytes(proto.SerializeToString())
    (model.parent / location).write_bytes(bytes(16000))
    write_checksum_anew(model)


def write_checksum_anew(model: Path) -> None:
    proto = onnx.load(model, load_external_data=False)
    for entry in proto.metadata_props:
        if entry.key == "ep_nnapi.sha256":
            entry.value = "0" * 64
    model.write_bytes(proto.SerializeToString())
    write_checksum(model)


def test_external_data_of_the_nodes_on_the_cpu(model: Path) -> None:
    with_external_data(model, "more.data")
    assert read_prepared_model(model).files[2:] == ("more.data",)
    (model.parent / "more.data").unlink()
    with pytest.raises(ModelError, match=r"more.data: no such file; it holds weights of the mod"):
        read_prepared_model(model)


def test_external_data_elsewhere_is_refused(model: Path) -> None:
    with_external_data(model, "../more.data")
    with pytest.raises(ModelError, match=r"'../more.data' are outside of its folder"):
        read_prepared_model(model)


def test_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no compiled cluster; make one with ep-nnapi prepare"):
        read_prepared_model(DIGITS)
    with pytest.raises(ModelError, match=r"nowhere.onnx: no such file"):
        read_prepared_model(tmp_path / "nowhere.onnx")
    with pytest.raises(ModelError, match="is a directory; give one"):
        read_prepared_model(tmp_path)
    (tmp_path / "text.onnx").write_text("no model at all")
    with pytest.raises(ModelError, match=r"text.onnx is no ONNX model"):
        read_prepared_model(tmp_path / "text.onnx")


def test_a_changed_model_is_refused(model: Path) -> None:
    proto = onnx.load(model)
    proto.doc_string = "changed"
    onnx.save(proto, model)
    with pytest.raises(ModelError, match="is corrupt or was changed; prepare the model again"):
        read_prepared_model(model)


def test_missing_weights_are_named(model: Path) -> None:
    (weights,) = model.parent.glob("*.weights")
    weights.unlink()
    with pytest.raises(ModelError, match=f"{weights.name}: no such file"):
        read_prepared_model(model)
