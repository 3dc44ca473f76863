"""Pages in a browser, opened as files: diagrams are drawn and the search finds, without a request to any host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.console.browser import executable


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable())
        opened = launched.new_page()
        opened.set_default_timeout(30_000)
        yield opened
        launched.close()


@pytest.mark.long
def test_every_diagram_is_drawn(site: Path, page: Page) -> None:
    requested: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    pages = [path for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text(encoding="utf-8")]
    assert len(pages) >= 4
    for path in pages:
        page.goto(path.as_uri())
        # The theme replaces the text by the drawing, which it hides from scripts.
        page.wait_for_function("document.querySelector('div.mermaid') && !document.querySelector('pre.mermaid')")
        sizes = page.eval_on_selector_all(
            "div.mermaid", "found => found.map(one => one.getBoundingClientRect().height)"
        )
        assert min(sizes) > 100, path
    assert errors == []
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_search_finds_without_a_server(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    query = page.locator("[data-md-component=search-query]")
    query.click()
    query.press_sequentially("Viewstamped")
    link = page.locator(".md-search-result__link").first
    link.wait_for()
    assert ".html" in (link.get_attribute("href") or "")
    assert "Viewstamped" in page.locator(".md-search-result__item").first.inner_text()
