"""Models for tests of the page, and reading of what a page shows without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import onnx
from onnx import helper

from tests.onnx_graph import model_of, nodes_of

EVIL = "</script><img src=x onerror=alert(1)>'\"&\u2028"
"""A node's name that ends a script, opens an element and ends a line of JavaScript."""


def blocks(count: int, *, rejected: int = 5) -> onnx.ModelProto:
    """`count` blocks of four nodes; in every `rejected`th one a node that NNAPI does not have."""
    nodes, x = [], "x"
    for i in range(count):
        op = "Det" if i % rejected == rejected - 1 else "Sigmoid"
        block = f"m{i} = Mul ({x}, c) r{i} = Relu (m{i}) s{i} = {op} (m{i}) a{i} = Add (r{i}, s{i})"
        for node in nodes_of(block):
            node.name = f"/layer.{i}/{node.op_type}"
            nodes.append(node)
        x = f"a{i}"
    return _model(nodes, x)


def named(name: str) -> onnx.ModelProto:
    """A Relu on NNAPI and a Det on the CPU, both with `name` in their names and values."""
    nodes = [
        helper.make_node("Relu", ["x"], [f"r{name}"], f"relu{name}"),
        helper.make_node("Det", [f"r{name}"], ["y"], f"det{name}"),
    ]
    return _model(nodes, "y")


def _model(nodes: list[onnx.NodeProto], output: str) -> onnx.ModelProto:
    return model_of(nodes, {"x": (4, 4)}, {output: None}, {"c": np.float32([1.5])}, opset=21)


def embedded(html: str) -> dict[str, object]:
    """The data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(text)


TEXTS = ("td", "th", "caption")


class Page(HTMLParser):
    """Start tags with attributes, the texts of tables, and their rows by the id of the section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.cells: list[str] = []  # captions too
        self._section = ""
        self._cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        elif tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        elif tag in TEXTS:
            self.cells.append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in TEXTS:
            self._cell = False
            if tag != "caption":
                self.rows[self._section][-1].append(self.cells[-1])

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.cells[-1] += data
