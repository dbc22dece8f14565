"""Models, inputs and options that cannot be used: exit 2 and one sentence."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.command import DIGITS, DONE, SAMPLES, saved


@pytest.mark.parametrize("verb", ["check", "run", "compare", "listing"])
def test_missing_file(refuses, verb: str):
    refuses(verb, "nowhere.onnx", says="nowhere.onnx: no such file")


@pytest.mark.parametrize("verb", ["run", "compare", "listing"])
def test_folder_instead_of_a_file(refuses, verb: str, tmp_path: Path):
    refuses(verb, tmp_path, says=f"{tmp_path} is a directory; give one .onnx or .ort file")


@pytest.mark.parametrize("kept", [1, 100, 5000, -1])
@pytest.mark.parametrize("verb", ["check", "run"])
def test_truncated_model(refuses, verb: str, kept: int, tmp_path: Path):
    content = Path(DIGITS).read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(content[:kept])
    refuses(verb, cut, says="cut.onnx: ONNX Runtime cannot load it")


@pytest.mark.parametrize("name", ["text.onnx", "text.ort"])
def test_no_model_at_all(refuses, name: str, tmp_path: Path):
    (tmp_path / name).write_text("this is no model")
    refuses("check", tmp_path / name, says=f"{name}: ONNX Runtime cannot load it")


def test_unknown_operator(refuses, tmp_path: Path):
    path = saved(tmp_path, "y = Nonsense (x)")
    refuses("check", path, says="Nonsense")


def test_missing_external_weights(refuses, tmp_path: Path):
    model = onnx.load(DIGITS)
    onnx.save(
        model,
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    (tmp_path / "weights.bin").unlink()
    refuses("check", tmp_path / "m.onnx", says="external tensors")


@pytest.mark.parametrize("shape", [(1, 1, 9, 8), (1, 8, 8), (64,), ()])
def test_wrong_shaped_input(refuses, shape: tuple[int, ...], tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    says = f"input image has shape {list(shape)}; the model takes [1, 1, 8, 8]"
    refuses("run", DIGITS, "--input", tmp_path / "x.npy", says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--flags", "USE_FP32"], "flag 'USE_FP32' is unknown"),
        (["--flags", "16"], "flags is 16"),
        (["--flags", "12"], "CPU_DISABLED and CPU_ONLY exclude each other"),
        (["--flags", "CPU_DISABLED|CPU_ONLY"], "CPU_DISABLED and CPU_ONLY exclude each other"),
        (["--flags", "CPU_DISABLED"], "flag CPU_DISABLED leaves no device"),
        (["--feature-level", "0"], "feature_level is 0; it must be 1 to 8"),
        (["--feature-level", "9"], "feature_level is 9; it must be 1 to 8"),
        (["--feature-level", "four"], "feature_level is 'four'"),
        (["--api-level", "26"], "api_level is 26"),
        (["--api-level", "32"], "feature_level"),
        (["--api-level", "30", "--feature-level", "4"], "both given"),
        (["--device", "npu"], "device 'npu' is unknown; there are nnapi-reference, host-cpu"),
        (["--runtime", "/nowhere/libneuralnetworks.so"], "/nowhere/libneuralnetworks.so"),
        (["--target", "coreml"], "target is 'coreml'"),
        (["--fallback", "gpu"], "fallback is 'gpu'"),
        (["--colour", "red"], "--colour"),
        (["--flags"], "--flags"),
        (["another.onnx"], "another.onnx"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("verb", ["check", "run", "compare", "listing"])
def test_options_that_cannot_be(refuses, verb: str, arguments: list[str], says: str):
    refuses(verb, DIGITS, *arguments, says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--exclude", "MaxPol"], "exclude names MaxPol, no operator type and no node "),
        (["--exclude", "Conv_1,MaxPol"], "; did you mean MaxPool?"),
        (["--exclude", "Conv_11"], "; did you mean Conv_1?"),
        (["--partitioning-stop-ops", "Conv_1"], "partitioning_stop_ops names Conv_1, no operator"),
        (["--fix", "imag=1,1,8,8"], "fix: imag is no input or symbolic dimension; known: image; "),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("verb", ["check", "run", "compare", "prepare", "listing"])
def test_names_that_the_model_does_not_have(refuses, verb, arguments, says, tmp_path):
    out = ["-o", tmp_path / "out"] if verb == "prepare" else []
    refuses(verb, DIGITS, *out, *arguments, says=says)


def test_an_operator_that_this_model_lacks_may_be_excluded(cli):
    """The same options go with many models."""
    assert cli("check", DIGITS, "--strict", "--exclude", "Softmax,FusedConv")[0] == DONE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "VERB"),
        (["chekc"], "chekc"),
        (["check"], "model"),
        (["run", DIGITS, "--random", "--input", SAMPLES], "--random and --input"),
        (["run", DIGITS, "--seed", "x"], "--seed"),
        (["run", DIGITS, "--tolerance", "x"], "--tolerance"),
        (["run", DIGITS, "--input", "nowhere.npy"], "nowhere.npy: no such input file"),
        (["run", DIGITS, "--input", __file__], "not a .npy, .npz or image file"),
        (["devices", "all"], "all"),
    ],
    ids=lambda a: " ".join(Path(x).name for x in a) if isinstance(a, list) else "",
)
def test_arguments_that_cannot_be(refuses, arguments: list[str], says: str):
    refuses(*arguments, says=says)
