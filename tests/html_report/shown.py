"""A page in a browser, as a reader sees and uses it."""

from __future__ import annotations

from pathlib import Path


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
