"""Lists: searching, sorting, rates, on narrow screens, and without the server."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.api import Api
from tests.console.conftest import OpenContext, Screenshot
from tests.console.steps import log_in, visit


def names(page: Page, table: str) -> Locator:
    return page.get_by_role("region", name=table).get_by_role("rowheader")


def test_streams_and_topics_are_searched_and_sorted(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    for number, messages in ((2, 1), (10, 3), (1, 0)):
        topic = api.topic(f"{name}-{number}", f"t-{number}")
        if messages:
            api.send(topic, [b"m"] * messages)
    for topic, partitions in (("b", 2), ("a", 3)):
        api("POST", f"/streams/{name}-1/topics", {"name": topic, "partitions_count": partitions})
    log_in(page)
    page.get_by_role("link", name="Streams").click()
    page.get_by_label("Contains").fill(name.upper())
    expect(names(page, "Streams")).to_have_text([f"{name}-2", f"{name}-10", f"{name}-1"])
    page.get_by_role("button", name="Name").click()
    # Numbers in names are sorted as numbers.
    expect(names(page, "Streams")).to_have_text([f"{name}-1", f"{name}-2", f"{name}-10"])
    page.get_by_role("button", name="Messages").click()
    expect(names(page, "Streams")).to_have_text([f"{name}-10", f"{name}-2", f"{name}-1"])
    screenshot(page, "streams-sorted")
    page.get_by_label("Contains").fill("no such stream")
    expect(page.get_by_text("There is no such stream.")).to_be_visible()
    visit(page, f"streams/{name}-1")
    page.get_by_role("button", name="Partitions").click()
    expect(names(page, "Topics")).to_have_text(["a", "b", "t-1"])
    page.get_by_label("Contains").fill("t-")
    expect(names(page, "Topics")).to_have_text(["t-1"])


@pytest.mark.long
def test_a_list_shows_rates(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    log_in(page)
    page.get_by_role("link", name="Streams").click()
    rate = page.get_by_role("row", name=name).get_by_role("cell").nth(3)
    expect(rate).to_have_text("0/s")
    for _ in range(40):
        api.send(topic, [b"m"] * 100)
        if rate.inner_text() != "0/s":
            break
        page.wait_for_timeout(100)
    expect(rate).not_to_have_text("0/s")


@pytest.mark.long
def test_without_the_server_the_last_state_is_marked(
    page: Page, api: Api, name: str, screenshot: Screenshot, complaints: list[str]
) -> None:
    api.topic(name)
    log_in(page)
    visit(page, f"streams/{name}")
    expect(names(page, "Topics")).to_have_text(["orders"])

    def lose(route: Route) -> None:
        route.abort("connectionrefused")

    page.route("**/streams/**", lose)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached.")
    expect(alert).to_contain_text("Last seen 20")
    expect(page.locator(".page-body.stale")).to_have_count(1)
    expect(names(page, "Topics")).to_have_text(["orders"])
    screenshot(page, "last-seen")
    page.unroute_all(behavior="ignoreErrors")
    expect(alert).to_have_count(0)
    expect(page.locator(".page-body.stale")).to_have_count(0)
    # The browser itself reports the requests that failed.
    complaints[:] = [text for text in complaints if "ERR_CONNECTION_REFUSED" not in text]


def test_on_a_phone_the_head_of_a_row_stays_while_its_table_scrolls(
    open_context: OpenContext, api: Api, name: str, screenshot: Screenshot
) -> None:
    api.topic(name)
    page = open_context(width=360, height=740).new_page()
    log_in(page)
    visit(page, f"streams/{name}")
    expect(names(page, "Topics")).to_have_text(["orders"])
    frame = page.get_by_role("region", name="Topics")
    screenshot(page, "topics-phone")
    frame.evaluate("frame => { frame.scrollLeft = frame.scrollWidth }")
    assert frame.evaluate("frame => frame.scrollLeft") > 0
    expect(page.get_by_role("columnheader", name="Size limit")).to_be_in_viewport()
    expect(names(page, "Topics")).to_be_in_viewport()
    screenshot(page, "topics-phone-scrolled")
    visit(page, "settings")
    page.get_by_label("Contains").fill("tcp.address")
    row = page.get_by_role("row", name="tcp.address")
    box, cell = row.bounding_box(), row.get_by_role("cell").first.bounding_box()
    assert box is not None
    assert cell is not None
    assert cell["width"] > box["width"] / 2
    screenshot(page, "settings-phone-narrow")
