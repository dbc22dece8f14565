"""Help, versions, spellings of options, and names of outputs."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import onnx
import onnxruntime
import pytest

from ep_nnapi.cli.arguments import dashed
from ep_nnapi.options.table import OPTIONS
from tests.cli.command import DIGITS, DONE, ROOT, UNUSABLE, process
from tests.onnx_graph import parsed
from tests.programs import ran


def shown(*arguments: str) -> str:
    """Output of --help, which ends the process."""
    done = process(*arguments)
    assert (done.returncode, done.stderr) == (DONE, "")
    return done.stdout


@pytest.mark.parametrize("verb", ["check", "run", "compare", "prepare", "listing"])
def test_help_folds_the_options_of_the_provider(verb: str):
    short, full = shown(verb, "--help"), shown(verb, "--help-options")
    assert "--help-options" in short
    assert not [line for line in short.splitlines() if line.startswith("  --exclude")]
    for option in OPTIONS:
        flag = f"  --{option.name.replace('_', '-')} {option.metavar}"
        assert flag in (full if option.provider else short)
        assert flag not in (short if option.provider else full)


@pytest.mark.parametrize("verb", ["check", "tune", "fix", "prepare", "bundle", "report"])
def test_output_is_one_word_for_all_verbs(verb: str):
    assert re.search(r"^  -o [A-Z]+, --output ", shown(verb, "--help"), re.MULTILINE)


def test_version_names_both_packages():
    expected = f"ep-nnapi {version('ep-nnapi')} (onnxruntime {onnxruntime.__version__})\n"
    assert shown("--version") == expected


@pytest.mark.parametrize("spelling", ["--feature-level", "--feature_level"])
def test_options_have_underscores_or_dashes(shows, spelling: str):
    out = shows("check", DIGITS, spelling, 3)
    assert "at feature level 3" in out


def test_options_of_several_values_may_be_repeated(shows, tmp_path: Path):
    """Whatever separates the values: the last one alone would leave the others as they were."""
    model = tmp_path / "model.onnx"
    onnx.save(
        parsed("(float[n] x, float[m] z) => (float[k] y) { y = Concat <axis = 0> (x, z) }"), model
    )
    given = [], ["--fix", "x=2; z=3"], ["--fix", "x=2", "--fix", "z=3"]
    none, once, twice = (shows("check", model, "--dynamic-shapes", "off", *each) for each in given)
    assert "NNAPI takes 0 of 1 node" in none
    assert "NNAPI takes 1 of 1 node" in once
    assert once == twice
    excluded = shows("check", DIGITS, "--exclude", "MaxPool", "--exclude", "Conv, Gemm")
    assert excluded == shows("check", DIGITS, "--exclude", "MaxPool,Conv,Gemm")


def test_only_the_names_of_options_are_respelled():
    given = ["a_b", "--min_x=a_b", "-o_p", "--fix", "x_y=1", "--", "--a_b"]
    assert dashed(given) == ["a_b", "--min-x=a_b", "-o_p", "--fix", "x_y=1", "--", "--a_b"]


@pytest.mark.parametrize("name", ["x.txt", "x.pb", "x.onnx.bak"])
def test_a_file_of_another_kind_is_not_prepared(cli, name: str, tmp_path: Path):
    code, out, err = cli("prepare", DIGITS, "-o", tmp_path / "c" / name)
    assert (code, out) == (UNUSABLE, "")
    stem = name.rpartition(".")[0]
    assert err.startswith(f"ep-nnapi: {name} is no name for format ort, which writes .ort files; ")
    assert f"give {stem}.ort, or a directory" in err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", ["v1.2", "is.there"])
def test_a_directory_may_have_a_dot_in_its_name(cli, name: str, tmp_path: Path):
    (tmp_path / "is.there").mkdir()
    assert cli("prepare", DIGITS, "-o", tmp_path / name, "--no-verify")[0] == DONE
    assert (tmp_path / name / "digits.ort").is_file()


@pytest.mark.fast_devices
@pytest.mark.parametrize("verb", ["check", "run", "compare", "report"])
def test_reference_names_the_device_of_numpy_kernels(cli, verb: str, tmp_path: Path):
    output = ["--no-levels", "-o", tmp_path / "page.html"] if verb == "report" else []
    code, out, _ = cli(verb, DIGITS, "--reference", "--json", *output)
    found = json.loads(out)
    (cluster,) = found.get("report", found)["clusters"]
    assert (code, cluster["device"]) == (0, "nnapi-reference")
    code, _, err = cli(verb, DIGITS, "--reference", "--device", "host-cpu", *output)
    assert code == 2
    assert "argument --device: not allowed with argument --reference" in err


# Completion: what a shell is told for a command line that is not finished


def completed(line: str, folder: Path) -> set[str]:
    """The completions of the last word, as argcomplete's shell functions ask for them."""
    answer = folder / "answer"
    answer.touch()
    environment = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    env = {**os.environ, **environment}
    done = ran(sys.executable, "-m", "ep_nnapi", status=None, timeout=120, env=env)
    assert (done.returncode, done.stdout) == (0, "")
    return {word.strip() for word in answer.read_text(encoding="utf-8").split("\n")}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ep-nnapi rep", {"report"}),
        ("ep-nnapi bundle --abi arm", {"arm64-v8a", "armeabi-v7a"}),
        ("ep-nnapi check --lev", {"--levels"}),
        ("ep-nnapi check --optimization-level n", {"nnapi-aware"}),
        ("ep-nnapi check --format ", {"model-explorer", "netron"}),
        ("ep-nnapi run --feature-l", {"--feature-level"}),  # an option of the provider
        ("ep-nnapi check models/dig", {"models/digits/", "models/digits.onnx"}),
    ],
)
def test_words(line: str, found: set[str], tmp_path: Path):
    assert completed(line, tmp_path) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells(shell: str):
    """The command of the README prints a script for each."""
    script = Path(sys.executable).with_name("register-python-argcomplete")
    done = ran(script, "--shell", shell, "ep-nnapi")
    assert "ep-nnapi" in done.stdout


def test_a_command_that_is_run_imports_no_argcomplete():
    code = (
        "import sys; from ep_nnapi.cli.main import main; main(['ops']); "
        "sys.exit('argcomplete' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "_ARGCOMPLETE"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0
