"""One browser for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.chromium import start_browser


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    browser = start_browser()
    yield browser
    browser.quit()
