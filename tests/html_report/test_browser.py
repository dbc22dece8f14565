"""The page in Chromium, with real clicks and keys: what it shows is the JSON of check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ep_nnapi
from bench.chromium import chromium, missing
from ep_nnapi.html_report.boxes import LIMIT, Variant
from ep_nnapi.html_report.page import Findings, page
from ep_nnapi.nnapi.errors import printable
from tests.html_report.models import EVIL, blocks, named

pytestmark = pytest.mark.web


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


REPORT = ep_nnapi.check(blocks(12))
JSON = REPORT.to_json()
LEVELS = tuple(Variant(str(n), ep_nnapi.check(blocks(12), feature_level=n)) for n in (1, 2, 3))


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    if missing():
        pytest.skip(missing())
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the pages that the tests open."""
    folder = tmp_path_factory.mktemp("pages")
    listings = tuple(f"listing of {i}" for i in range(len(REPORT.clusters)))
    (folder / "blocks.html").write_text(page(Findings("m.onnx", REPORT, listings)))
    evil = ep_nnapi.check(named(EVIL))
    levels = tuple(Variant(EVIL, ep_nnapi.check(named(EVIL), exclude=x)) for x in ("", "Relu"))
    html = page(Findings(EVIL, evil, optimization_levels=levels))
    (folder / "evil.html").write_text(html, encoding="utf-8")
    (folder / "levels.html").write_text(page(Findings("m", REPORT, feature_levels=LEVELS)))
    (folder / "big.html").write_text(page(Findings("big", ep_nnapi.check(blocks(1250)))))
    return folder


@pytest.fixture
def shown(browser: object, pages: Path) -> Iterator[Shown]:
    found = Shown(browser, pages / "blocks.html")
    browser.get_log("browser")
    yield found
    assert browser.get_log("browser") == []


def keys() -> type:
    from selenium.webdriver.common.keys import Keys

    return Keys


def test_every_node_has_the_decision_and_reason_of_the_json(shown: Shown):
    wanted = {
        name: f"NNAPI: cluster {i} on {c['device']}"
        for i, c in enumerate(JSON["clusters"])
        for name in c["nodes"]
    } | {r["node"]: f"CPU: {r['reason']}" for r in JSON["rejections"]}
    details = {r["node"]: r["detail"] for r in JSON["rejections"]}
    assert len(wanted) == JSON["nodes"]
    for name, decision in wanted.items():
        shown.search(name)
        shown.press(keys().ENTER)
        assert (shown.text("#details h2"), shown.text("#details .decision")) == (name, decision)
        if name in details:
            assert shown.text("#details .detail") == details[name]


def test_a_click_on_a_cluster_opens_and_closes_it(shown: Shown):
    shown.one("#close-all").click()
    before = shown.labels()
    for number, cluster in enumerate(JSON["clusters"]):
        shown.click_title(f"▸ Cluster {number}")
        assert set(cluster["nodes"]) <= {second for _, second in shown.labels()}
        assert shown.text("#details h2") == f"Cluster {number}"
        assert shown.text("#details .decision") == f"NNAPI, on {cluster['device']}"
        terms, values = ([e.text for e in shown.all(f"#details {t}")] for t in ("dt", "dd"))
        facts = dict(zip(terms, values, strict=True))
        assert facts["bytes in and out"] == f"{cluster['boundary_bytes']:,}"
        assert facts["inputs"] == ", ".join(cluster["inputs"])
        shown.click_title(f"▾ Cluster {number}")
        assert shown.labels() == before


def test_the_clusters_and_rejected_nodes_are_all_drawn(shown: Shown):
    shown.one("#close-all").click()
    labels = shown.labels()
    clusters = [first for first, _ in labels if "Cluster" in first]
    assert sorted(clusters) == [f"▸ Cluster {i}" for i in range(len(JSON["clusters"]))]
    expected = {r["node"] for r in JSON["rejections"]}
    assert {second for first, second in labels if first == "Det"} == expected


def test_a_click_on_a_node_tells_its_reason(shown: Shown):
    shown.one("#close-all").click()
    shown.one("#fit").click()
    shown.box("Det").click()
    assert shown.text("#details .decision") == "CPU: OP"
    assert shown.box("Det").get_attribute("aria-selected") == "true"


def test_open_all_and_close_all(shown: Shown):
    shown.one("#open-clusters").click()
    assert len(shown.all("#leaves g.box")) == JSON["nodes"]
    shown.one("#close-all").click()
    assert len(shown.all("#areas g.box")) == 0


def test_search_by_reason_and_operator(shown: Shown):
    shown.search("cpu op det")
    found = [b.text for b in shown.all("#found button")]
    assert found == [f"Det {r['node']} CPU OP" for r in JSON["rejections"]]
    shown.all("#found button")[1].click()
    assert shown.text("#details h2") == JSON["rejections"][1]["node"]
    shown.search("no such node")
    assert shown.text("#found") == "nothing found"
    shown.press(keys().ESCAPE)
    assert not shown.one("#found").is_displayed()


def test_tables_lead_to_the_drawing(shown: Shown):
    shown.one("#clusters button[data-key]").click()
    assert shown.text("#details h2") == "Cluster 0"
    summary = shown.one("#rejections summary")
    assert summary.text == "Show 2 nodes"
    summary.click()
    shown.wait_for("#rejections li button")
    shown.all("#rejections li button")[1].click()
    assert shown.text("#details h2") == JSON["rejections"][1]["node"]


def test_the_listing_of_a_cluster(shown: Shown):
    shown.one("#clusters tbody tr:nth-child(2) button").click()
    shown.one("#details .listing summary").click()
    shown.wait_for("#details .listing pre")
    assert shown.text("#details .listing pre") == "listing of 1"


def test_neighbours_are_links(shown: Shown):
    shown.search(JSON["rejections"][0]["node"])
    shown.press(keys().ENTER)
    links = [b.text for b in shown.all("#details li button")]
    assert links == ["Mul /layer.4/Mul", "Add /layer.4/Add"]
    shown.all("#details li button")[1].click()
    assert shown.text("#details h2") == "/layer.4/Add"


def test_everything_can_be_done_with_keys(shown: Shown):
    shown.one("#close-all").click()
    for _ in range(20):
        shown.press(keys().TAB)
        if "Cluster 0" in (shown.focused() or ""):
            break
    assert shown.focused().startswith("Cluster 0")
    shown.press(keys().ENTER)
    assert shown.driver.switch_to.active_element.get_attribute("aria-expanded") == "true"
    shown.press(keys().ARROW_RIGHT)
    assert shown.focused() == "Mul /layer.0/Mul, on NNAPI, cluster 0"
    assert shown.text("#details h2") == "/layer.0/Mul"
    shown.press(keys().ARROW_LEFT)
    shown.press(keys().ARROW_LEFT)
    assert shown.driver.switch_to.active_element.get_attribute("aria-expanded") == "false"
    shown.press(keys().ARROW_DOWN)
    assert shown.focused() == "Det /layer.4/Det, on the CPU, OP"
    shown.press(keys().HOME)
    assert shown.focused().startswith("Cluster 0")
    shown.press("/")
    assert shown.driver.switch_to.active_element.get_attribute("id") == "search"


def test_one_box_at_a_time_is_in_the_order_of_tab(shown: Shown):
    shown.one("#open-clusters").click()
    for label in ("Relu", "Det"):
        shown.search(label)
        shown.press(keys().ENTER)
        ((first, _),) = shown.labels('g.box[tabindex="0"]')
        assert first == label
    assert all(b.get_attribute("aria-label") for b in shown.all("g.box"))


def place(shown: Shown) -> tuple[float, float, float]:
    """The drawing's translation and scale."""
    given = shown.one("#view").get_attribute("transform")
    return tuple(map(float, re.findall(r"[-\d.]+(?:e-\d+)?", given)))


def test_zoom(shown: Shown):
    _, _, before = place(shown)
    shown.one("#zoom-in").click()
    assert place(shown)[2] == pytest.approx(1.3 * before)
    shown.one("#zoom-out").click()
    shown.one("#zoom-out").click()
    assert place(shown)[2] == pytest.approx(before / 1.3)
    shown.one("#fit").click()
    assert place(shown)[2] == before
    for _ in range(12):
        shown.one("#zoom-in").click()
    assert place(shown)[2] == 4  # the limit


def test_the_wheel_scales_about_the_pointer(shown: Shown):
    x, y, scale = place(shown)
    wheel = """const [svg, dx, dy, deltaY] = arguments, r = svg.getBoundingClientRect();
        svg.dispatchEvent(new WheelEvent("wheel", {cancelable: true, deltaY,
            clientX: r.left + dx, clientY: r.top + dy}))"""
    shown.driver.execute_script(wheel, shown.one("#graph"), 100, 50, -500)
    wanted = (100 - (100 - x) * 2, 50 - (50 - y) * 2, 2 * scale)
    assert place(shown) == pytest.approx(wanted, abs=1)  # an event's place is in whole pixels


def test_a_drag_moves_the_drawing_and_clicks_nothing(shown: Shown):
    """Also one that begins on a box; one of three pixels is a click."""
    shown.one("#close-all").click()
    before, labels, box = place(shown), shown.labels(), shown.box("Det")
    shown.drag(box, 40, -25)
    assert place(shown) == pytest.approx((before[0] + 40, before[1] - 25, before[2]))
    assert (shown.labels(), shown.all(".selected")) == (labels, [])
    shown.drag(box, 2, 2)
    assert shown.text("#details h2") == JSON["rejections"][0]["node"]


def test_two_fingers_scale_the_drawing(shown: Shown):
    touch = """const [svg, ...moves] = arguments, r = svg.getBoundingClientRect();
        svg.setPointerCapture = () => {};  // these pointers are none of the browser's
        for (const [type, pointerId, x, y] of moves) svg.dispatchEvent(new PointerEvent(
            type, {pointerId, clientX: r.left + x, clientY: r.top + y}))"""
    x, y, scale = place(shown)
    down = [["pointerdown", 1, 100, 100], ["pointerdown", 2, 200, 100]]
    moves = [["pointermove", 1, 50, 100], ["pointermove", 2, 250, 100], ["pointerup", 1, 50, 100]]
    shown.driver.execute_script(touch, shown.one("#graph"), *down, *moves)
    assert place(shown) == pytest.approx((150 - (150 - x) * 2, 100 - (100 - y) * 2, 2 * scale))


def test_pictures_of_levels_show_the_decision_on_each_node(browser: object, pages: Path):
    """They are drawn when they are scrolled to."""
    from selenium.webdriver.support.ui import WebDriverWait

    shown = Shown(browser, pages / "levels.html")
    browser.execute_script("arguments[0].scrollIntoView()", shown.one(".pictures"))
    WebDriverWait(browser, 60).until(lambda _: shown.all(".pictures figure"))
    (drawn,) = {len(shown.all(".pictures figure")), len({v.report.taken for v in LEVELS})}
    taken = shown.labels(".pictures figure:last-child .nnapi:not(.area)")
    assert {name for _, name in taken} == {n for c in LEVELS[-1].report.clusters for n in c.nodes}
    left = shown.labels(".pictures figure:last-child .rejected")
    assert {name for _, name in left} == {r.node for r in LEVELS[-1].report.rejections}
    captions = [f.text for f in shown.all(".pictures figcaption")]
    assert len(captions) == drawn
    assert captions[-1].endswith(f"{LEVELS[-1].report.taken} of 48 nodes on NNAPI, 3 clusters")
    assert browser.get_log("browser") == []


def test_nothing_is_requested(shown: Shown):
    script = "return performance.getEntriesByType('resource').map(e => e.name)"
    assert shown.driver.execute_script(script) == []


def luminance(color: str) -> float:
    parts = [int(p) / 255 for p in color.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable(shown: Shown, scheme: str):
    """WCAG 2 asks for a contrast of 4.5 between text and its background."""
    emulate = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    shown.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", emulate)
    shown.one("#open-clusters").click()
    script = "const s = getComputedStyle(arguments[0]); return [s.color, s.fill, s.backgroundColor]"
    card = shown.driver.execute_script(script, shown.one("section"))
    assert (luminance(card[2]) < 0.2) == (scheme == "dark")
    pairs = [(card[0], card[2])]
    for kind in ("nnapi", "cpu"):
        box = shown.one(f"#leaves .box.{kind}")
        fill = shown.driver.execute_script(script, box.find_element("css selector", "rect"))[1]
        for text in box.find_elements("css selector", "text"):
            pairs.append((shown.driver.execute_script(script, text)[1], fill))
    for text, background in pairs:
        bright, dark = sorted((luminance(text), luminance(background)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_names_of_a_model_do_nothing(browser: object, pages: Path):
    shown = Shown(browser, pages / "evil.html")
    assert shown.text("h1") == printable(EVIL)
    browser.execute_script("document.querySelector('.pictures').scrollIntoView()")
    assert browser.execute_script("return document.images.length") == 0
    shown.search("det")
    shown.press(keys().ENTER)
    assert shown.text("#details h2") == f"det{EVIL}".strip()
    assert browser.execute_script("return document.images.length") == 0
    assert browser.get_log("browser") == []


def test_five_thousand_nodes_are_drawn_on_demand(browser: object, pages: Path):
    """Clusters first; opening all stops where a page would no longer be readable."""
    shown = Shown(browser, pages / "big.html")
    assert len(shown.all("g.box")) <= 2 * LIMIT
    shown.one("#open-clusters").click()
    assert browser.execute_script("return drawn.shown.length") <= 2000
    shown.one("#close-all").click()
    shown.search("/layer.777/Relu")
    shown.press(keys().ENTER)
    assert shown.text("#details h2") == "/layer.777/Relu"
    assert shown.one("g.box.selected").is_displayed()


def test_on_a_phone_nothing_is_cut_off(shown: Shown):
    """The middle of the drawing is in the middle when it is turned, too."""
    narrow = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    view = "const {width, height} = arguments[0].getBoundingClientRect(); return [width, height]"
    (x, y, scale), graph = place(shown), shown.one("#graph")
    width, height = shown.driver.execute_script(view, graph)
    shown.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        shown.driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
        now = shown.driver.execute_script(view, graph)
        moved = (x + (now[0] - width) / 2, y + (now[1] - height) / 2, scale)
        assert now[0] < width
        assert place(shown) == pytest.approx(moved)
        wide, visible, field = shown.driver.execute_script(
            "const {scrollWidth, clientWidth} = document.documentElement;"
            "return [scrollWidth, clientWidth, document.getElementById('search').clientWidth]"
        )
        assert 300 < field < wide == visible <= 420
        names = shown.one("#rejections td:nth-child(3)")  # in a table that scrolls sideways
        assert names.size["width"] > 120
        shown.search(JSON["rejections"][0]["node"])
        shown.press(keys().ENTER)
        assert shown.text("#details .decision").startswith("CPU")
    finally:
        shown.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_only_a_screen_needs_is_not_printed(shown: Shown):
    assert shown.one(".tools").is_displayed()
    shown.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not shown.one(".tools").is_displayed()
        assert not shown.one(".legend").is_displayed()
    finally:
        shown.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
