"""A Chromium without a window, for tests of pages. Where there is none, they are skipped with one line."""

from __future__ import annotations

import base64
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)


def reason_for_none() -> str:
    """Return why there is no browser; empty if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return 'selenium is not installed: pip install -c constraints.txt -e ".[browser]"'
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found: apt-get install chromium chromium-driver" if missing else ""


@contextlib.contextmanager
def browser(dark: bool = False, width: int = 1280, height: int = 900) -> Iterator[Any]:
    """Start a browser with a profile of its own, and end it."""
    from selenium import webdriver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        for option in (*_OPTIONS.split(), f"--window-size={width},{height}", f"--user-data-dir={profile}"):
            options.add_argument(option)
        options.binary_location = shutil.which("chromium") or ""
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        try:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            yield driver
        finally:
            driver.quit()


#: Ends what fades and moves.
_STILL = """const style = document.head.appendChild(document.createElement("style"));
style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important; }";"""
#: Where the last section ends that fits into a height: above the next heading.
_SECTION = """return Math.max(...[...document.querySelectorAll("h2")].map(each => each.getBoundingClientRect().top
  - Math.min(28, parseFloat(getComputedStyle(each).marginTop) / 2)).filter(top => top <= arguments[0]))"""


def shoot(driver: Any, file: Path, width: int, height: int) -> None:
    """Save the upper sections of the page as an image, of a height at most; its lower end may be beyond the window."""
    driver.execute_script(_STILL)
    whole = driver.execute_script("return Math.ceil(document.body.getBoundingClientRect().bottom)")
    if whole > height:
        whole = driver.execute_script(_SECTION, height) or height
    clip = {"x": 0, "y": 0, "width": width, "height": whole, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    file.write_bytes(base64.b64decode(shot["data"]))
