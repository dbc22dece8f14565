"""`bundle`: what it prints, and that what cannot be is said in one sentence."""

import json
from pathlib import Path

import onnx
import pytest

from tests.bundling.phone import ABI, native_folder, needs_abi
from tests.cli.command import DIGITS, DONE, SAMPLES
from tests.native.build import needs_compiler
from tests.native.sessions import prepared

pytestmark = [needs_compiler, needs_abi]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(onnx.load(DIGITS), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return native_folder(tmp_path_factory.mktemp("native"))


def test_where_it_is_and_what_to_do_with_it(cli, model: Path, native: Path, tmp_path: Path):
    out = tmp_path / "out"
    words = ("--abi", ABI, "--native", native, "--input", SAMPLES)
    code, said, notes = cli("bundle", model, "-o", out, *words)
    assert code == DONE
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    assert said.splitlines() == [
        f"{out}: 10 files, {size} bytes, for {ABI} and NNAPI feature level 1 or higher",
        f"{out}/push.sh copies it to /data/local/tmp/ep-nnapi/model_ctx on the phone by adb",
        f"{out}/run.sh runs it there and brings the outputs",
    ]
    assert "ep-nnapi: the inputs have rows for 20 runs; the bundle has the first\n" in notes


def test_a_zip(cli, model: Path, native: Path, tmp_path: Path):
    out = tmp_path / "out.zip"
    code, said, _ = cli("bundle", model, "-o", out, "--abi", ABI, "--native", native)
    assert code == DONE
    assert f"\nin {out}, unpacked: push.sh copies it to /data/local/tmp/" in said


def test_json(cli, model: Path, native: Path, tmp_path: Path):
    out = tmp_path / "out"
    code, said, _ = cli("bundle", model, "-o", out, "--abi", ABI, "--native", native, "--json")
    found = json.loads(said)
    assert code == DONE
    assert (found["out"], found["abi"], found["feature_level"]) == (str(out), ABI, 1)
    assert found["remote"] == "/data/local/tmp/ep-nnapi/model_ctx"
    assert {f["path"]: f["bytes"] for f in found["files"]} == {
        p.relative_to(out).as_posix(): p.stat().st_size for p in out.rglob("*") if p.is_file()
    }


def test_what_is_refused(refuses, model: Path, tmp_path: Path):
    out = tmp_path / "out"
    refuses("bundle", DIGITS, "-o", out, says="no compiled cluster; make one with ep-nnapi prepare")
    refuses("bundle", model, "-o", out, "--native", tmp_path, says="cmake -S native -B ")
    refuses("bundle", model, "-o", out, "--abi", "mips", says="invalid choice: 'mips'")
    refuses("bundle", model, says="the following arguments are required: -o/--out")
    assert [*tmp_path.iterdir()] == []
