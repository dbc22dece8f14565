"""Models for tests of the page, and reading of what a page shows without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import onnx
from onnx import TensorProto, helper

EVIL = "</script><img src=x onerror=alert(1)>'\"&\u2028"
"""A node's name that ends a script, opens an element and ends a line of JavaScript."""


def blocks(count: int, *, rejected: int = 5) -> onnx.ModelProto:
    """`count` blocks of four nodes; in every `rejected`th one a node that NNAPI does not have."""
    nodes, x = [], "x"
    for i in range(count):
        op = "Det" if i % rejected == rejected - 1 else "Sigmoid"
        nodes += [
            helper.make_node("Mul", [x, "c"], [f"m{i}"], f"/layer.{i}/Mul"),
            helper.make_node("Relu", [f"m{i}"], [f"r{i}"], f"/layer.{i}/Relu"),
            helper.make_node(op, [f"m{i}"], [f"s{i}"], f"/layer.{i}/{op}"),
            helper.make_node("Add", [f"r{i}", f"s{i}"], [f"a{i}"], f"/layer.{i}/Add"),
        ]
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
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [helper.make_tensor("c", TensorProto.FLOAT, [1], [1.5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


def embedded(html: str) -> dict[str, object]:
    """The data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    return json.loads(text)


class Page(HTMLParser):
    """Start tags with attributes, and the rows of tables by the id of their section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: dict[str, list[list[str]]] = {}
        self._section = ""
        self._cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs)["id"] or ""
        elif tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        elif tag in ("td", "th"):
            self.rows[self._section][-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[self._section][-1][-1] += data


class Shown:
    """A page in the browser, by what a reader sees and does."""

    def __init__(self, driver: object, path: Path) -> None:
        self.driver = driver
        self.driver.get(path.as_uri())

    def all(self, selector: str) -> list[object]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> object:
        return self.driver.find_element("css selector", selector)

    def wait_for(self, selector: str) -> None:
        """Waits until there is one: browsers tell later that a list was opened."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 10).until(lambda _: self.all(selector))

    def text(self, selector: str) -> str:
        return self.one(selector).text

    def labels(self, selector: str = "g.box") -> list[tuple[str, str]]:
        """Both lines of boxes, also of those outside the visible part of the drawing."""
        script = """return [...document.querySelectorAll(arguments[0])].map(
            b => [...b.querySelectorAll("text")].map(t => t.textContent))"""
        return [tuple(pair) for pair in self.driver.execute_script(script, selector)]

    def box(self, label: str) -> object:
        place = [first for first, _ in self.labels()].index(label)
        return self.all("g.box")[place]

    def click_title(self, label: str) -> None:
        """Clicks into the top left corner of a box, which its children leave free."""
        from selenium.webdriver.common.action_chains import ActionBuilder

        script = "const r = arguments[0].getBoundingClientRect(); return [r.left, r.top]"
        left, top = self.driver.execute_script(script, self.box(label))
        actions = ActionBuilder(self.driver)
        actions.pointer_action.move_to_location(int(left) + 10, int(top) + 10).click()
        actions.perform()

    def drag(self, box: object, x: int, y: int) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).drag_and_drop_by_offset(box, x, y).perform()

    def search(self, words: str) -> None:
        field = self.one("#search")
        field.clear()
        field.send_keys(words)

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        return self.driver.switch_to.active_element.get_attribute("aria-label")
