"""HTML fragments of reports: untrusted names are only text, rows are those of the terminal."""

from __future__ import annotations

import ep_nnapi
from ep_nnapi.errors import Rejection, kind_row
from ep_nnapi.nnapi.errors import Reason
from ep_nnapi.report import html as report_html
from tests.cli.command import DIGITS
from tests.html_report.models import Page

EVIL = "</td><script>alert(1)</script>\x1b[31m\"'&"


def rejection(node: str, op_type: str, reason: Reason, detail: str, kind: str = "") -> Rejection:
    return Rejection(node, op_type, reason, detail, kind=kind)


def test_names_are_text():
    found = Page(report_html.table((EVIL,), [(EVIL,)], EVIL))
    assert {tag for tag, _ in found.tags} == {
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert found.cells == [EVIL.replace("\x1b", "\\x1b")] * 3


def test_a_table_of_200_rows_is_whole():
    assert Page(report_html.table(("a",), [("x",)] * 200)).cells == ["a", *["x"] * 200]


def test_of_a_longer_table_the_others_are_counted():
    found = Page(report_html.table(("a", "b"), [("x", "y")] * 203))
    assert found.cells == ["a", "b", *["x", "y"] * 200, "and 3 more"]


def test_rejections_are_folded_by_reason_operator_and_kind():
    pool = [rejection(f"p{i}", "Pool", Reason.RANK, f"p{i} has rank 5", "rank 5") for i in "abc"]
    mish = rejection("m", "Mish", Reason.OP, "no lowering")
    add = rejection("a", "Add", Reason.RANK, "rank 6")
    folded = report_html.folded([mish, *pool, add])
    assert list(folded) == ["RANK", "OP"]
    assert folded["RANK"] == [pool, [add]]
    assert kind_row(pool) == ("Pool", "3", "pa to pc", "rank 5")
    assert kind_row([mish]) == ("Mish", "1", "m", "no lowering")


def test_notebooks_show_clusters_and_reasons():
    report = ep_nnapi.check(DIGITS, exclude="MaxPool")
    cells = Page(report._repr_html_()).cells
    for cluster in report.clusters:
        assert {cluster.operators, cluster.ends, str(cluster.boundary_bytes)} <= set(cells)
    assert "EXCLUDED (2): none needed: an option excludes it" in cells
    assert "MaxPool_4 to MaxPool_8" in cells


def test_a_plain_repr_has_no_markup():
    assert "<td>" not in repr(ep_nnapi.check(DIGITS, exclude="MaxPool"))
