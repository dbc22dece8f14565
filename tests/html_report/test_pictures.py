"""Pictures of levels: all nodes of a small model, clusters of a large one, equal ones once."""

from __future__ import annotations

import json

import pytest

import ep_nnapi
from ep_nnapi.html_report.boxes import SMALL, Variant, pictures_of
from ep_nnapi.report.report import Report
from tests.cli.command import DIGITS
from tests.html_report.models import blocks

BLOCK = 4  # nodes


def pictured(report: Report) -> dict[str, object]:
    (picture,) = pictures_of([Variant("level", report)])
    return json.loads(json.dumps(picture))


def children(box: dict[str, object]) -> set[str]:
    return {key for row in box["rows"] for key in row if key[0] != "l"}


def test_a_small_model_shows_each_node_with_its_decision():
    report = ep_nnapi.check(DIGITS, exclude="MaxPool")
    found = pictured(report)
    assert found["summary"] == "6 of 8 nodes on NNAPI, 3 clusters"
    names = {n["labels"][1]: n["cluster"] for n in found["nodes"].values()}
    assert names == {
        **{name: i for i, c in enumerate(report.clusters) for name in c.nodes},
        **{r.node: -1 for r in report.rejections},
    }
    assert {b["labels"][0] for b in found["boxes"][:-1]} == {f"Cluster {i}" for i in range(3)}
    inside = [children(box) for box in found["boxes"]]
    assert set().union(*inside) == {*found["nodes"], *(b["key"] for b in found["boxes"][:-1])}


@pytest.mark.parametrize(("count", "opened"), [(SMALL // BLOCK, True), (SMALL // BLOCK + 1, False)])
def test_a_large_model_shows_clusters_and_what_is_between_them(count: int, opened: bool):
    report = ep_nnapi.check(blocks(count))
    found = pictured(report)
    assert found["opened"] is opened
    assert len(found["nodes"]) == (report.nodes if opened else len(report.rejections))
    clusters = [b for b in found["boxes"] if b["cluster"] >= 0]
    assert [b["labels"][0] for b in clusters] == [f"Cluster {i}" for i in range(len(clusters))]
    counted = [set(b["labels"][1].split(", ")) for b in clusters]
    assert counted == [set(c.operators.split(", ")) for c in report.clusters]
    assert children(found["boxes"][-1]) == {
        *(b["key"] for b in found["boxes"][:-1]),
        *(k for k, n in found["nodes"].items() if n["cluster"] < 0),
    }


def test_neighbouring_levels_with_the_same_picture_share_it():
    whole, parts = ep_nnapi.check(DIGITS), ep_nnapi.check(DIGITS, exclude="MaxPool")
    found = pictures_of(
        [
            *(Variant(name, parts) for name in "1"),
            *(Variant(name, whole) for name in "234"),
            *(Variant(name, parts) for name in "56"),
        ]
    )
    assert [p["names"] for p in found] == [["1"], ["2", "3", "4"], ["5", "6"]]


def test_levels_without_a_report_have_no_picture():
    assert pictures_of([Variant("all", None, "it cannot be saved")]) == []
