"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tools.film import FLAGS

from tests.explore.browser import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield browser
        browser.close()
