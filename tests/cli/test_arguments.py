"""Help, versions, spellings of options, and names of outputs."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from ep_nnapi.cli.arguments import dashed
from ep_nnapi.options import OPTIONS
from tests.cli.command import DIGITS, DONE, UNUSABLE, process


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


def test_version_names_both_packages():
    expected = f"ep-nnapi {version('ep-nnapi')} (onnxruntime {version('onnxruntime')})\n"
    assert shown("--version") == expected


@pytest.mark.parametrize("spelling", ["--feature-level", "--feature_level"])
def test_options_have_underscores_or_dashes(cli, spelling: str):
    code, out, _ = cli("check", DIGITS, spelling, 3)
    assert code == DONE
    assert "at feature level 3" in out


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
