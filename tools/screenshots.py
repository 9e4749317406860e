"""Photograph a report page for the site: `python -m tools.screenshots report.html out.png --keys "b c"`.

Needs Chromium and its driver. Without a graphics card WebGL is drawn by the CPU, as in the tests.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.report.chromium import Page, start_browser

DESKTOP, PHONE = (1280, 800), (390, 844)


def main() -> None:
    """Take the picture that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--phone", action="store_true", help="390 x 844 pixels, with fingers")
    parser.add_argument("--keys", default="", help="pressed first, separated by spaces")
    parser.add_argument("--script", default="", help="JavaScript that is run before")
    told = parser.parse_args()
    driver = start_browser()
    try:
        page = Page(driver, told.page.resolve(), size=PHONE if told.phone else DESKTOP, touch=told.phone)
        if told.script:
            page.script(told.script)
        for key in told.keys.split():
            page.key(key)
            page.settle()
        page.settle()
        time.sleep(0.3)
        told.out.write_bytes(driver.get_screenshot_as_png())
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
