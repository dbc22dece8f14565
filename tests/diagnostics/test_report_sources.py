"""Reports name the source lines that the model records: in check, run and at every level."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import ep_nnapi
from ep_nnapi.diagnostics.report_sources import with_sources
from ep_nnapi.errors import SourceLine
from ep_nnapi.preparation.ort_export import check_at
from ep_nnapi.report import Report
from tests.html_report.models import named
from tests.source_lines import recorded

FILE = "/home/me/net.py"
MODEL = recorded(named(""), "layers.0", FILE)
LINE = SourceLine("layers.0", FILE, 12, "y = self.act(self.conv(x))")


def sources(report: Report) -> list[SourceLine | None]:
    return [r.source for r in report.rejections]


def test_check_and_run_name_the_line():
    assert sources(ep_nnapi.check(MODEL)) == [LINE]
    assert sources(ep_nnapi.run(MODEL).report) == [LINE]


def test_nodes_that_nnapi_takes_have_lines_too():
    (graph,) = ep_nnapi.check(MODEL).graphs
    assert [n.source for n in graph.outline] == [LINE, LINE]
    assert sources(ep_nnapi.check(MODEL)) == [r.source for r in graph.rejections]


@pytest.mark.parametrize("level", ["basic", "nnapi-aware"])
def test_a_saved_model_has_the_lines_of_the_original(level: str, tmp_path: Path):
    onnx.save(MODEL, tmp_path / "m.onnx")
    assert sources(check_at(tmp_path / "m.onnx", level)) == [LINE]


def test_a_model_without_metadata_stays_as_it_is():
    plain = named("")
    report = ep_nnapi.check(plain)
    assert with_sources(report, plain.SerializeToString()) is report
    assert sources(report) == [None]
