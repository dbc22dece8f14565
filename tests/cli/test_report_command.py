"""`ep-nnapi report`: a page, one line about it, and the report as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import ep_nnapi
from tests.cli.command import DIGITS, DONE
from tests.html_report.models import embedded


def test_one_line_and_a_page(cli, tmp_path: Path):
    page = tmp_path / "report.html"
    code, out, err = cli("report", DIGITS, "-o", page, "--no-levels", "--feature-level", "3")
    report = ep_nnapi.check(DIGITS, feature_level=3)
    assert (code, out, err) == (DONE, f"{page}: {report.summary}\n", "")
    assert embedded(page.read_text(encoding="utf-8"))["report"] == report.to_json()


def test_json(cli, tmp_path: Path):
    page = tmp_path / "report.html"
    code, out, _ = cli("report", DIGITS, "-o", page, "--no-levels", "--json")
    assert code == DONE
    assert json.loads(out) == {"output": str(page), "report": ep_nnapi.check(DIGITS).to_json()}


def test_an_output_is_needed(refuses):
    refuses("report", DIGITS, says="-o/--output")


def test_a_missing_model(refuses, tmp_path: Path):
    refuses("report", "none.onnx", "-o", tmp_path / "r.html", says="none.onnx: no such file")
    assert not list(tmp_path.iterdir())
