"""What axe-core finds to be wrong with a page that is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.report.chromium import Page

AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
RUN = (
    "axe.run().then((found) => arguments[0]([found.passes.length, "
    "found.violations.map((one) => [one.impact, one.id, one.nodes.map((node) => node.html)])]))"
)


def faults(page: Page) -> list[Any]:
    """Return what axe-core finds to be wrong."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm ci, in viewer/)")
    page.script(AXE.read_text(encoding="utf-8"))
    passed, found = page.driver.execute_async_script(RUN)
    assert passed > 15
    return list(found)
