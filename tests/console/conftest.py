"""Browser pages; any console error fails the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.conftest import TWO_SHARDS, ended_well
from tests.console.api import Api
from tests.console.browser import executable
from tests.server_process import ServerProcess

ARTEFACTS = Path(__file__).resolve().parents[2] / ".cache/artefacts/console"
TIMEOUT_MS = 45_000
expect.set_options(timeout=TIMEOUT_MS)
# Refusals are part of some journeys; the browser logs them however the page handles them.
EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests, each of which uses its own names."""
    with ServerProcess(tmp_path_factory.mktemp("console") / "data", TWO_SHARDS) as server:
        yield server
    ended_well(server)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable())
        yield launched
        launched.close()


@pytest.fixture
def complaints() -> list[str]:
    """Errors of scripts and violations of the content security policy."""
    return []


OpenContext = Callable[..., BrowserContext]


@pytest.fixture
def open_context(browser: Browser, shared_server: ServerProcess, complaints: list[str]) -> Iterator[OpenContext]:
    """Create isolated browser contexts."""
    contexts: list[BrowserContext] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not EXPECTED.search(message.text):
            complaints.append(f"{message.type}: {message.text}")

    def opened(*, width: int = 1280, height: int = 800, **more: object) -> BrowserContext:
        context = browser.new_context(
            base_url=shared_server.http_url, viewport={"width": width, "height": height}, **more
        )
        context.set_default_timeout(TIMEOUT_MS)
        context.on("console", heard)
        context.on("weberror", lambda error: complaints.append(f"exception: {error.error}"))
        contexts.append(context)
        return context

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_context: OpenContext) -> Page:
    """A page of a desktop's size."""
    return open_context().new_page()


@pytest.fixture
def api(shared_server: ServerProcess) -> Api:
    """The HTTP interface as root."""
    return Api(shared_server.http_url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return str(request.node.originalname or request.node.name).removeprefix("test_")[:40]


Screenshot = Callable[[Page, str], None]


@pytest.fixture
def screenshot() -> Screenshot:
    """Keep what a page looks like, as an artefact of the run."""

    def kept(page: Page, called: str) -> None:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"{called}.png")

    return kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None and not page.is_closed():
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"failed-{item.name}.png")
    return report
