"""The page of `ep-nnapi report` at 5,000 nodes: writing it, opening it, reacting to a click."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

import ep_nnapi
from bench.chromium import chromium, missing
from ep_nnapi.html_report.page import Findings, page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BLOCKS = 1250  # of four nodes
OPENING = 3.0  # seconds that opening may take
CLICK = 200.0  # milliseconds that a click may take
_OPENINGS, _CLICKS = 5, 7

_CLICK = """
const [key, done] = arguments, start = performance.now();
document.getElementById(`box-${key}`).dispatchEvent(new MouseEvent("click", {bubbles: true}));
requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
"""
"""Clicks a box; the time until the next frame is drawn."""


def model(rejected: int) -> onnx.ModelProto:
    """Blocks of four nodes, with a node that NNAPI does not have in every `rejected`th one."""
    nodes, x = [], "x"
    for i in range(BLOCKS):
        last = "Det" if i % rejected == rejected - 1 else "Sigmoid"
        for op, inputs, output in (
            ("Mul", [x, "c"], f"m{i}"),
            ("Relu", [f"m{i}"], f"r{i}"),
            (last, [f"m{i}"], f"s{i}"),
            ("Add", [f"r{i}", f"s{i}"], f"a{i}"),
        ):
            nodes.append(helper.make_node(op, inputs, [output], f"/layer.{i}/{op}"))
        x = f"a{i}"
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])]
    ends.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, None))
    weights = [helper.make_tensor("c", TensorProto.FLOAT, [1], [1.5])]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


def main() -> None:
    """Prints times for models of one, 26 and 251 clusters."""
    for rejected in (BLOCKS + 1, 50, 5):
        report = ep_nnapi.check(model(rejected))
        begin = time.perf_counter()
        html = page(Findings("blocks.onnx", report))
        written = time.perf_counter() - begin
        size = len(html.encode()) / 1e6
        print(f"{report.nodes} nodes, {len(report.clusters)} clusters: {size:.1f} MB", end=" ")
        print(f"made in {written:.2f} s")
        if missing():
            print(f"  not opened: {missing()}")
            continue
        with TemporaryDirectory() as folder, chromium() as browser:
            path = Path(folder, "page.html")
            path.write_text(html, encoding="utf-8")
            opening = median(_opened(browser, path) for _ in range(_OPENINGS))
            clicks = list(_clicks(browser))
        print(f"  opened in {opening:.2f} s (limit {OPENING} s)")
        print(
            f"  click {median(clicks):.0f} ms, at most {max(clicks):.0f} ms (limit {CLICK:.0f} ms)"
        )


def _opened(browser: Chrome, path: Path) -> float:
    """Seconds from navigation to the end of loading, drawing included."""
    browser.get(path.as_uri())
    timing = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd"
    return float(browser.execute_script(timing)) / 1e3


def _clicks(browser: Chrome) -> Iterator[float]:
    """Milliseconds of clicks that open closed boxes, the first ones shown."""
    for _ in range(_CLICKS):
        script = "return drawn.shown.find(b => b.key[0] === 'b' && !b.open)?.key"
        key = browser.execute_script(script)
        if key is None:
            return
        yield float(browser.execute_async_script(_CLICK, key))


if __name__ == "__main__":
    main()
