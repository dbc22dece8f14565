"""manifest.json: what is written is read again, and what changed is not up to date."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ep_nnapi.nnapi.errors import OptionError
from ep_nnapi.nnapi.files import digest_of
from ep_nnapi.preparation.job import Job
from ep_nnapi.preparation.manifest import Prepared, Recipe, Status, read, up_to_date, write

RECIPE = Recipe(Job().to_json(), {"inputs": {}, "tolerance": None}, {"onnx": "1.2.3"})


@pytest.fixture
def entry(tmp_path: Path) -> Prepared:
    """An entry whose files are in the folder."""
    for name in ("a.onnx", "a.ort"):
        (tmp_path / name).write_text(name)
    digests = {name: digest_of(tmp_path / name) for name in ("a.onnx", "a.ort")}
    source, output = ({name: digests[name]} for name in ("a.onnx", "a.ort"))
    return Prepared("a.onnx", "a.ort", RECIPE, source, output, operators=["ai.onnx;13;Relu"])


def current(entry: Prepared, folder: Path, recipe: Recipe = RECIPE) -> bool:
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


def test_up_to_date_are_the_same_files_made_in_the_same_way(
    entry: Prepared, tmp_path: Path
) -> None:
    assert current(entry, tmp_path)
    assert not current(entry, tmp_path, replace(RECIPE, versions={"onnx": "1.2.4"}))
    assert not current(replace(entry, error="failed"), tmp_path)
    assert not current(replace(entry, outputs={}), tmp_path)


@pytest.mark.parametrize("name", ["a.onnx", "a.ort"])
def test_a_changed_or_missing_file_is_not_up_to_date(
    name: str, entry: Prepared, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("changed")
    assert not current(entry, tmp_path)
    (tmp_path / name).unlink()
    assert not current(entry, tmp_path)


def test_the_status_follows_from_error_and_skipped(entry: Prepared) -> None:
    assert entry.status is Status.PREPARED
    assert replace(entry, skipped=True).status is Status.UP_TO_DATE
    assert replace(entry, error="x", skipped=True).status is Status.FAILED
