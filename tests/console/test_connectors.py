"""The pages of connectors: list, progress, versions, and changes (CON-34)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.apis.http.api import rights
from tests.conftest import TWO_SHARDS, ended_well
from tests.connectors.process import Connectors
from tests.console.api import Api
from tests.console.conftest import OpenContext, Screenshot
from tests.console.steps import log_in, visit
from tests.console.test_access import violations, width
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

TOKEN = "of-the-connectors"
PIPELINE = """
[sources.orders]
plugin = "random"
[sources.orders.settings]
interval = "20 ms"
[sources.orders.routing]
default_stream = "wares"
default_topic = "other"
topic_column = "ware"
[sinks.screen]
plugin = "stdout"
stream = "wares"
topic = "tea"
[sources.broken]
plugin = "webhook"
stream = "wares"
topic = "tea"
[sources.broken.settings]
address = "TAKEN"
"""


@pytest.fixture(scope="module")
def connectors(tmp_path_factory: pytest.TempPathFactory) -> Connectors:
    """Connectors that a server knows; started by it."""
    found = Connectors(tmp_path_factory.mktemp("connectors"), "")
    found.token = TOKEN
    return found


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory, connectors: Connectors) -> Iterator[ServerProcess]:
    """A server that knows connectors, in place of the one of the other tests."""
    settings = {"HTTP_CONNECTORS_URL": connectors.url, "HTTP_CONNECTORS_TOKEN": TOKEN}
    with ServerProcess(tmp_path_factory.mktemp("knowing") / "data", TWO_SHARDS | settings) as server:
        connectors.server_url = url_of(server.address)
        connectors.run(PIPELINE.replace("TAKEN", connectors.url.removeprefix("http://")))
        yield server
        connectors.kill()
    ended_well(server)


@pytest.mark.long
def test_the_list_shows_state_throughput_and_the_last_error(page: Page, screenshot: Screenshot) -> None:
    log_in(page)
    page.get_by_role("link", name="Connectors").click()
    table = page.get_by_role("region", name="Connectors")
    orders = table.get_by_role("row", name="orders")
    expect(orders).to_contain_text("running")
    expect(orders).to_contain_text("random")
    expect(orders.get_by_role("cell").nth(4)).to_contain_text("/s", timeout=30_000)
    broken = table.get_by_role("row", name="broken")
    expect(broken).to_contain_text("error")
    expect(broken).to_contain_text("cannot listen on")
    expect(table.get_by_role("row", name="screen").get_by_role("cell").nth(5)).to_contain_text("message")
    expect(page.get_by_text("3 connectors, 1 in trouble")).to_be_visible()
    screenshot(page, "connectors")


def test_a_connector_shows_progress_destinations_and_history(page: Page, screenshot: Screenshot) -> None:
    log_in(page)
    visit(page, "connectors/orders")
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Records per second")).to_be_visible(timeout=30_000)
    destinations = page.get_by_role("region", name="Destinations")
    expect(destinations.get_by_role("row", name="wares/tea")).to_contain_text("closed")
    changes = page.get_by_role("region", name="Changes of the state")
    expect(changes.get_by_role("row").nth(1)).to_contain_text("running")
    expect(page.get_by_text("There were no errors.")).to_be_visible()
    screenshot(page, "connector")
    destinations.get_by_role("link", name="wares/tea").click()
    expect(page.get_by_role("heading", name="tea")).to_be_visible()
    visit(page, "connectors/broken")
    errors = page.get_by_role("region", name="Errors")
    expect(errors).to_contain_text("cannot listen on")
    expect(page.get_by_role("status").filter(has_text="cannot listen on")).to_be_visible()


def test_a_connector_is_stopped_and_started(page: Page, connectors: Connectors) -> None:
    log_in(page)
    visit(page, "connectors/screen")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("screen was stopped.")).to_be_visible()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("screen was started.")).to_be_visible()
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_text("screen was restarted.")).to_be_visible()
    connectors.becomes("screen", "running")


@pytest.mark.long
def test_a_connector_is_created_changed_and_taken_back(
    page: Page, connectors: Connectors, screenshot: Screenshot
) -> None:
    """Each change is a version of the user, and the difference is shown before one is activated."""
    log_in(page)
    visit(page, "connectors")
    page.get_by_role("button", name="Create a connector").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made")
    dialog.get_by_label("Definition").fill('{"plugin": "randon"}')
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("did you mean random?")
    dialog.get_by_label("Definition").fill("{")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The definition is not JSON")
    definition = {"plugin": "random", "stream": "wares", "topic": "made", "settings": {"seed": 1}}
    dialog.get_by_label("Definition").fill(json.dumps(definition))
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="made", exact=True)).to_be_visible()
    page.get_by_role("button", name="Change", exact=True).click()
    dialog.get_by_label("Definition").fill(json.dumps(definition | {"settings": {"seed": 2}}))
    dialog.get_by_label("Comment").fill("another seed")
    screenshot(page, "connector-change")
    dialog.get_by_role("button", name="Make a version").click()
    versions = page.get_by_role("region", name="Versions")
    expect(versions.get_by_role("row", name="2 active")).to_contain_text("another seed")
    page.get_by_role("button", name="Activate version 1").click()
    differences = dialog.get_by_role("region", name="Differences")
    expect(differences.locator(".diff-removed")).to_contain_text('"seed": 2')
    expect(differences.locator(".diff-added")).to_contain_text('"seed": 1')
    screenshot(page, "connector-activate")
    dialog.get_by_role("button", name="Activate").click()
    expect(versions.get_by_role("row", name="1 active")).to_be_visible()
    page.get_by_role("button", name="Show version 2").click()
    expect(dialog).to_contain_text("Compared with version 1")
    dialog.get_by_role("button", name="Close").click()
    assert connectors.get("/connectors/made/versions")["versions"][0]["author"] == "iggy"
    page.get_by_role("button", name="Delete the connector").click()
    dialog.get_by_label("Type made to confirm").fill("made")
    dialog.get_by_role("button", name="Delete the connector").click()
    expect(page.get_by_role("heading", name="Connectors")).to_be_visible()
    expect(page.get_by_role("region", name="Connectors").get_by_role("row", name="made")).to_have_count(0)


def test_a_change_in_between_is_not_overwritten(page: Page, connectors: Connectors) -> None:
    log_in(page)
    visit(page, "connectors/screen")
    page.get_by_role("button", name="Change", exact=True).click()
    active = connectors.get("/connectors/screen/versions")["versions"][0]["definition"]
    connectors.post("/connectors/screen/versions", {"definition": active, "comment": "first"})
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Make a version").click()
    expect(dialog.get_by_role("alert")).to_contain_text("screen has changed")


def test_the_token_of_the_connectors_is_not_in_the_browser(page: Page, shared_server: ServerProcess) -> None:
    """CON-34: the browser keeps no token of theirs, and asks the server alone."""
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    log_in(page)
    visit(page, "connectors/orders")
    expect(page.get_by_role("region", name="Versions")).to_be_visible()
    kept = page.evaluate("JSON.stringify(sessionStorage) + JSON.stringify(localStorage) + document.body.innerHTML")
    assert TOKEN not in kept
    assert all(url.startswith(shared_server.http_url) for url in urls)


def test_a_user_who_may_only_read(page: Page, api: Api) -> None:
    permissions = rights("read_servers")
    api(
        "POST", "/users", {"username": "reader", "password": "reader-1", "status": "active", "permissions": permissions}
    )
    log_in(page, "reader", "reader-1")
    visit(page, "connectors/orders")
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_role("alert")).to_contain_text("does not have the right “Manage servers”")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible(open_context: OpenContext, scheme: str, screenshot: Screenshot) -> None:
    page = open_context(color_scheme=scheme).new_page()
    log_in(page)
    found = {}
    for place, region in (("connectors", "Connectors"), ("connectors/orders", "Versions")):
        visit(page, place)
        expect(page.get_by_role("region", name=region, exact=True)).to_be_visible()
        found[place] = violations(page)
        screenshot(page, f"{place.replace('/', '-')}-{scheme}")
    page.get_by_role("button", name="Show version 1").click()
    expect(page.get_by_role("region", name="Differences")).to_be_visible()
    found["dialog"] = violations(page)
    assert {place: what for place, what in found.items() if what} == {}


def test_on_a_phone(open_context: OpenContext, screenshot: Screenshot) -> None:
    page = open_context(width=360, height=740).new_page()
    log_in(page)
    for place, region in (("connectors", "Connectors"), ("connectors/orders", "Versions")):
        visit(page, place)
        expect(page.get_by_role("region", name=region, exact=True)).to_be_visible()
        assert width(page) <= 360, place
        screenshot(page, f"{place.replace('/', '-')}-phone")
