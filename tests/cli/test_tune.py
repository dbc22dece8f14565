"""`tune` measures for real and prints a table, the best candidate and why; nothing of the times."""

import json
from pathlib import Path

import pytest

from tests.cli.command import DIGITS, SAMPLES

SHORT = ("--seconds", "0.1", "--device", "nnapi-reference")


def test_a_table_the_best_and_the_settings(shows, tmp_path: Path):
    path = tmp_path / "settings.json"
    out = shows("tune", DIGITS, "-o", path, *SHORT)
    assert out.startswith("Random inputs of seed 0.\ncandidate ")
    rows = [line for line in out.splitlines() if line.startswith(("CPU ", "NNAPI "))]
    assert sum(line.startswith("CPU ") for line in rows) >= 2
    assert any(line.startswith("NNAPI nnapi-reference, basic ") for line in rows)
    assert "\nNNAPI nnapi-reference, nnapi-aware, worth_it: NNAPI takes no node\n" in out
    best = json.loads(path.read_text())["measured"]["candidate"]
    assert f"\nBest: {best}.\n" in out
    assert out.endswith(f"\nsettings: {path}\n")


def test_json(shows):
    out = shows("tune", DIGITS, "--input", SAMPLES, "--json", *SHORT)
    found = json.loads(out)
    assert found["seed"] is None
    assert found["best"] in {c["name"] for c in found["candidates"]}
    measured = [c["timing"] for c in found["candidates"] if c["timing"] is not None]
    assert all(0 < t["low"] <= t["seconds"] <= t["high"] for t in measured)
    assert all(t["runs"] >= 6 for t in measured)


@pytest.mark.parametrize("verb", ["run", "compare", "check", "prepare", "listing"])
def test_verbs_take_settings(shows, tmp_path: Path, verb: str):
    path = tmp_path / "settings.json"
    data = {"format": "ep-nnapi settings", "version": 1, "provider": "NNAPI"}
    options = {"exclude": ["MaxPool"]}
    path.write_text(json.dumps({**data, "optimization_level": "basic", "options": options}))
    out = ("-o", tmp_path / "out") if verb == "prepare" else ()
    said = shows(verb, DIGITS, "--settings", path, *out)
    if verb in ("run", "compare", "check"):
        assert "NNAPI takes 6 of 8 nodes" in said


def test_settings_of_a_library_are_refused(refuses, tmp_path: Path):
    path = tmp_path / "settings.json"
    data = {"format": "ep-nnapi settings", "version": 1, "provider": "NNAPI"}
    options = {"runtime": "/tmp/x.so"}
    path.write_text(json.dumps({**data, "optimization_level": "basic", "options": options}))
    refuses("run", DIGITS, "--settings", path, says="option runtime names a file or a library")
    refuses("check", DIGITS, "--settings", tmp_path / "none", says="no such settings file")
    refuses("tune", DIGITS, "--seconds", "-1", says="seconds is -1.0; it must be more than 0")


def test_unknown_names_are_refused(refuses):
    refuses("tune", DIGITS, "--device", "npu", says="device 'npu' is unknown")
