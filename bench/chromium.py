"""Headless Chromium, as Debian's packages chromium and chromium-driver install it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",  # no page reaches a network
    "--window-size=1500,1100",
)


def missing() -> str:
    """A sentence about what is not installed; "" if everything is."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed; on Debian: apt install chromium chromium-driver"
    try:
        import selenium  # noqa: F401 (only to see that it is there)
    except ImportError:
        return "selenium is not installed; `make test-web` installs it"
    return ""


@contextmanager
def chromium() -> Iterator[Chrome]:
    """Yields a browser with an empty profile; needs what `missing` names."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with TemporaryDirectory(prefix="ep-nnapi-chromium-") as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()
