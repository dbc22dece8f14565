"""The page as a file: complete, loading nothing, with names as text only."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import ep_nnapi
from ep_nnapi.diagnostics.measured_times import MeasuredTimes
from ep_nnapi.html_report.boxes import Variant
from ep_nnapi.html_report.page import Findings, page
from tests.html_report.models import EVIL, Page, blocks, embedded, named
from tests.source_lines import recorded

REPORT = ep_nnapi.check(blocks(10), device="nnapi-reference")
HTML = page(Findings("m.onnx", REPORT))


def test_the_data_is_the_json_of_check():
    assert embedded(HTML)["report"] == REPORT.to_json()


def test_clusters_and_reasons_are_in_tables_too():
    """For readers without scripts."""
    found = Page(HTML)
    head, *clusters = found.rows["clusters"]
    assert head[-3:] == ["estimated on NNAPI", "estimated on the CPU", "measured"]
    assert [r[4] for r in clusters] == [c.operators for c in REPORT.clusters]
    assert [r[6] for r in clusters] == [", ".join(c.inputs) for c in REPORT.clusters]
    assert found.rows["rejections"][1][:2] == ["Det", "2"]


def test_nothing_is_loaded():
    """No reference to another file, and a policy that forbids any."""
    found = Page(HTML)
    for tag, attributes in found.tags:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert "src" not in attributes
        assert tag != "a"
    (policy,) = [a["content"] for t, a in found.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_the_policy_allows_the_page_s_own_scripts_and_styles_only():
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', HTML)[1]
    inline = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", HTML, re.DOTALL)
    digests = [b64encode(sha256(text.encode()).digest()).decode() for text in inline]
    assert re.findall("'sha256-(.*?)'", policy) == digests
    assert len(digests) == 4
    assert "unsafe" not in policy
    assert not re.search(r"<[^<>]* (style|on\w+)=", HTML)


def test_names_of_nodes_and_files_are_text():
    report = ep_nnapi.check(named(EVIL))
    html = page(Findings(EVIL, report))
    harmless = page(Findings("m", ep_nnapi.check(named("m"))))
    assert [t for t, _ in Page(html).tags] == [t for t, _ in Page(harmless).tags]
    assert html.count("</script>") == harmless.count("</script>") == 4
    assert "<img" not in html
    names = {n["name"] for n in embedded(html)["nodes"]}
    assert names == {f"relu{EVIL}", f"det{EVIL}"}


def test_listings_and_sources_are_text():
    report = ep_nnapi.check(recorded(named(""), EVIL, EVIL.replace('"', "")))
    html = page(Findings("m", report, (EVIL,)))
    assert html.count("</script>") == 4
    assert embedded(html)["clusters"][0]["listing"] == EVIL
    assert EVIL.strip() in embedded(html)["nodes"][0]["source"]


def test_a_model_without_clusters():
    html = page(Findings("m", ep_nnapi.check(named(""), exclude="Relu")))
    assert "clusters" not in Page(html).rows
    assert {r[0] for r in Page(html).rows["rejections"]} == {"operator", "Relu", "Det"}


def test_levels_side_by_side():
    variants = (Variant("1", REPORT), Variant("2", None, "ONNX Runtime cannot save it"))
    found = Page(page(Findings("m", REPORT, feature_levels=variants)))
    assert found.rows["levels"][0][0] == "feature level"
    assert found.rows["levels"][1] == ["1", "40", "38", "3", found.rows["levels"][1][4], "2 OP"]
    assert found.rows["levels"][2][-1] == "ONNX Runtime cannot save it"


def test_measured_times():
    first, second, *_ = (c.nodes for c in REPORT.clusters)
    slow, fast = (r.node for r in REPORT.rejections)
    times = MeasuredTimes({first: 1250.0, second: 500.0}, {}, {slow: 700.0, fast: 50.0}, runs=3)
    found = Page(page(Findings("m", REPORT, times=times)))
    assert [r[-1] for r in found.rows["clusters"][1:]] == ["1.25 ms", "500 µs", "-"]
    rows = [(r[0], *r[2:]) for r in found.rows["times"][1:]]
    assert rows == [
        ("cluster 0", "nnapi-reference", "1.25 ms", "50.0%"),
        (slow, "CPU provider", "700 µs", "28.0%"),
        ("cluster 1", "nnapi-reference", "500 µs", "20.0%"),
        (fast, "CPU provider", "50 µs", "2.0%"),
    ]
    assert "times" not in Page(HTML).rows


def test_only_the_slowest_parts_are_listed_singly():
    times = MeasuredTimes(cpu_nodes={f"n{i}": 1.0 for i in range(25)})
    rows = Page(page(Findings("m", REPORT, times=times))).rows["times"][1:]
    assert len(rows) == 21
    assert rows[-1] == ["5 more", "", "", "5 µs", "20.0%"]


def test_elements_that_scripts_look_up_exist():
    scripts = HTML[HTML.index("layoutOf") :]
    ids = {a["id"] for _, a in Page(HTML).tags if a.get("id")}
    wanted = set(re.findall(r'(?:getElementById\(|press\()"([a-z-]+)"', scripts))
    assert wanted
    assert wanted <= ids
