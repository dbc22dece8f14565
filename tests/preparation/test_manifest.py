"""manifest.json: what is written is read again, and what changed is not up to date."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.preparation.job import Job
from ep_nnapi.preparation.manifest import (
    CacheKey,
    Prepared,
    Status,
    merged,
    read,
    up_to_date,
    write,
)
from models import zoo
from tests.preparation.test_pipeline import SIZES

RECIPE = CacheKey(Job().to_json(), {"inputs": {}, "tolerance": None}, {"onnx": "1.2.3"})


@pytest.fixture
def entry(tmp_path: Path) -> Prepared:
    """An entry whose files are in the folder."""
    for name in ("a.onnx", "a.ort"):
        (tmp_path / name).write_text(name)
    digests = {name: digest_of(tmp_path / name) for name in ("a.onnx", "a.ort")}
    source, output = ({name: digests[name]} for name in ("a.onnx", "a.ort"))
    return Prepared("a.onnx", "a.ort", RECIPE, source, output, operators=["ai.onnx;13;Relu"])


def current(entry: Prepared, folder: Path, recipe: CacheKey = RECIPE) -> bool:
    return up_to_date(entry, folder / "a.onnx", recipe, folder)


def test_entries_are_read_as_they_were_written(entry: Prepared, tmp_path: Path) -> None:
    failed = Prepared("b.onnx", "b.ort", RECIPE, error="too large", unusable=True)
    write(tmp_path / "manifest.json", [failed, entry])
    found = read(tmp_path / "manifest.json")
    wanted = {"a.ort": entry, "b.ort": failed}
    assert list(found) == list(wanted)  # by output, and with empty lists where tuples were
    for name, one in found.items():
        assert json.dumps(one.to_json()) == json.dumps(wanted[name].to_json())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "models": []}', "[" * 10**5])
def test_what_is_no_manifest_of_this_version_has_no_entries(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    assert read(tmp_path / "manifest.json") == {}


def test_a_missing_manifest_has_no_entries_and_a_folder_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path / "manifest.json") == {}
    with pytest.raises(OptionError, match="cannot be read"):
        read(tmp_path)


def test_an_entry_of_other_types_spoils_the_manifest(entry: Prepared, tmp_path: Path) -> None:
    write(tmp_path / "manifest.json", [entry])
    data = json.loads((tmp_path / "manifest.json").read_text())
    data["models"][0]["output"] = 3
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    assert read(tmp_path / "manifest.json") == {}


def test_up_to_date_are_the_same_files_made_in_the_same_way(entry: Prepared, tmp_path: Path):
    assert current(entry, tmp_path)
    assert not current(entry, tmp_path, replace(RECIPE, versions={"onnx": "1.2.4"}))
    assert not current(replace(entry, error="failed"), tmp_path)
    assert not current(replace(entry, outputs={}), tmp_path)


@pytest.mark.parametrize("name", ["a.onnx", "a.ort"])
def test_a_changed_or_missing_file_is_not_up_to_date(name: str, entry: Prepared, tmp_path: Path):
    (tmp_path / name).write_text("changed")
    assert not current(entry, tmp_path)
    (tmp_path / name).unlink()
    assert not current(entry, tmp_path)


def test_the_status_follows_from_error_and_skipped(entry: Prepared) -> None:
    assert entry.status is Status.PREPARED
    assert replace(entry, skipped=True).status is Status.UP_TO_DATE
    assert replace(entry, error="x", skipped=True).status is Status.FAILED


FEW = ("mlp", "kws_dscnn")
Lines = list[str]


def written(folder: Path, names: Sequence[str]) -> Path:
    folder.mkdir()
    for name in names:
        onnx.save(zoo.MODELS[name](size=SIZES.get(name)), folder / f"{name}.onnx")
    return folder


def lines(path: Path) -> Lines:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def theirs(models: Path, out: Path, *arguments: str) -> dict[str, Lines]:
    """Output of ONNX Runtime's converter, by the file's name."""
    shutil.copytree(models, out)
    command = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", str(out)]
    command += ["--target_platform", "arm", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return {p.name: lines(p) for p in out.glob("*.config")}


def ours(models: Path, out: Path, **options: object) -> dict[str, Lines]:
    assert not ep_nnapi.prepare(models, out, verify=False, **options).failed
    return {p.name: lines(p) for p in out.glob("*.config")}


def are_the_same(names: Sequence[str], folder: Path) -> None:
    models = written(folder / "in", names)
    fixed = theirs(models, folder / "fixed", "--optimization_style", "Fixed")
    assert ours(models, folder / "a", optimization_level="all") == fixed
    types = ("--optimization_style", "Fixed", "--enable_type_reduction")
    typed = theirs(models, folder / "typed", *types)
    assert ours(models, folder / "b", optimization_level="all", enable_type_reduction=True) == typed
    recorded = theirs(models, folder / "recorded", "--optimization_style", "Runtime")
    given = {"optimization_level": "all", "optimization_style": "runtime"}
    (own,) = ours(models, folder / "c", **given).items()
    assert own[0] in recorded
    assert merged([*own[1], *recorded[own[0]]]) == own[1]  # nothing that theirs has is missing


def test_operators_are_those_of_onnx_runtimes_tool(tmp_path: Path) -> None:
    are_the_same(FEW, tmp_path)


@pytest.mark.long
def test_operators_of_the_zoo_are_those_of_onnx_runtimes_tool(tmp_path: Path) -> None:
    are_the_same(list(zoo.MODELS), tmp_path)
