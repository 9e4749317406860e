"""A page in a real browser: what it shows, and what a reader does."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from duotomo.errors import DuotomoError
from duotomo.report.page import SCRIPT, viewer_part
from tests.report.page_results import GRID

WIDTH, HEIGHT = 1280, 800
PANELS = ("reference", "prior", "difference")

Pixels = NDArray[np.int64]


def start_browser() -> Any:
    """Return a browser; skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = next(filter(None, map(shutil.which, names)), None)
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("Chromium and its driver are not installed (Debian: chromium, chromium-driver)")
    try:
        viewer_part(SCRIPT)
    except DuotomoError as error:
        pytest.skip(str(error))
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--use-gl=angle",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        "--force-device-scale-factor=1",
        f"--window-size={WIDTH},{HEIGHT}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))


class Page:
    """A page that is open: what it shows, and what a reader does."""

    def __init__(
        self,
        driver: Any,
        path: Path,
        *,
        size: tuple[int, int] = (WIDTH, HEIGHT),
        touch: bool = False,
        ready: str = "#viewer[data-ready]",
    ) -> None:
        """ready: what is found once the page can be used."""
        self.driver = driver
        screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": touch}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        for kind in ("browser", "performance"):
            driver.get_log(kind)
        driver.get(path.as_uri())
        self.until(lambda: bool(self.script("return document.querySelector(arguments[0])", ready)))

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def until(self, done: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, self.driver.get_log("browser")
            time.sleep(0.05)

    def key(self, key: str) -> None:
        self.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key)

    def settle(self) -> None:
        """Wait until the page has drawn what it was asked for."""
        # Sizes may change one frame later, and then all is drawn again.
        frames = "let n = 3; const f = () => --n ? requestAnimationFrame(f) : arguments[0](); f()"
        drawn = "return document.querySelector('.panels').dataset.drawn !== 'false'"
        for _ in range(2):
            self.driver.execute_async_script(frames)
            self.until(lambda: bool(self.script(drawn)))

    def box(self, role: str) -> tuple[int, int, int, int]:
        """Return where a panel's picture is on the screen: left, top, width, height."""
        found = self.script(
            "const b = document.querySelector(`[data-role=${arguments[0]}] .over`).getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height].map(Math.round)",
            role,
        )
        left, top, width, height = found
        return left, top, width, height

    def screen(self) -> Pixels:
        """Return the screen, (row, column, rgb)."""
        self.settle()
        with Image.open(io.BytesIO(self.driver.get_screenshot_as_png())) as image:
            return np.asarray(image.convert("RGB")).astype(np.int64)

    def picture(self, role: str) -> Pixels:
        left, top, width, height = self.box(role)
        return self.screen()[top : top + height, left : left + width]

    def data(self, role: str, name: str) -> str:
        return str(
            self.script(
                "return document.querySelector(`[data-role=${arguments[0]}]`).dataset[arguments[1]]",
                role,
                name,
            )
        )

    def mouse(self, role: str, kind: str, x: float, y: float, **more: Any) -> None:
        left, top, _, _ = self.box(role)
        event = {"type": kind, "x": left + x, "y": top + y, "button": "none", **more}
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)

    def drag(self, role: str, start: tuple[float, float], end: tuple[float, float], button: str) -> None:
        held = {"left": 1, "right": 2, "middle": 4}[button]
        self.mouse(role, "mousePressed", *start, button=button, buttons=held, clickCount=1)
        self.mouse(role, "mouseMoved", *end, button=button, buttons=held)
        self.mouse(role, "mouseReleased", *end, button=button, clickCount=1)
        self.settle()

    def click(self, role: str, x: float, y: float) -> None:
        self.drag(role, (x, y), (x, y), "left")

    def requests(self) -> list[str]:
        """Return the addresses that were asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def set(self, name: str, value: str, event: str = "change") -> None:
        """Give a control a value, as a reader would."""
        code = (
            "const control = document.querySelector(`[name='${arguments[0]}']`);"
            "control.value = arguments[1]; control.dispatchEvent(new Event(arguments[2]))"
        )
        self.script(code, name, value, event)
        self.settle()

    def value(self, name: str) -> str:
        return str(self.script("return document.querySelector(`[name='${arguments[0]}']`).value", name))


def expected_pixel(page: Page, role: str, voxel: tuple[int, int, int]) -> tuple[float, float]:
    """Return where a voxel is in a picture with the chest wall to the left: y goes right, x downwards."""
    _, _, width, height = page.box(role)
    _, n_y, n_x = GRID.shape
    scale = min(width / GRID.size_mm[1], height / GRID.size_mm[2])
    right = (voxel[1] + 0.5 - n_y / 2) * GRID.spacing_mm[1]
    down = (voxel[2] + 0.5 - n_x / 2) * GRID.spacing_mm[2]
    return width / 2 + right * scale, height / 2 + down * scale


def to_slice(page: Page, z: int) -> None:
    page.key("Home")
    for _ in range(z):
        page.key("ArrowDown")
    page.until(lambda: page.data("reference", "slice") == str(z))
    page.settle()
