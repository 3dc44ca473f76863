"""A login, an inspection of a running server, and an enforced logout (USE-5, GW-5, USE-6)."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.api import Api
from tests.console.conftest import OpenContext, Screenshot
from tests.console.steps import log_in, log_in_with_token, visit


def create_token(page: Page, called: str) -> str:
    page.get_by_role("link", name="Access tokens").click()
    page.get_by_role("button", name="Create a token").click()
    page.get_by_label("Name").fill(called)
    page.get_by_role("button", name="Create", exact=True).click()
    text = page.locator(".secret").inner_text()
    page.get_by_role("button", name="Done").click()
    expect(page.locator(".secret")).to_have_count(0)
    return text


def send(page: Page, payload: str, *, headers: str = "") -> None:
    page.get_by_role("link", name="Send").click()
    page.get_by_label("Headers").fill(headers)
    page.get_by_label("Payload").fill(payload)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("1 message sent.").last).to_be_visible()


@pytest.mark.long
def test_the_whole_way(open_context: OpenContext, name: str, screenshot: Screenshot) -> None:
    owner, page = open_context().new_page(), open_context().new_page()
    log_in(owner)
    log_in_with_token(page, create_token(owner, "journey"))
    create_topic(page, name)
    page.get_by_role("link", name="Live", exact=True).click()
    expect(page.get_by_text("live · 0 received")).to_be_visible()
    visit(owner, f"streams/{name}/topics/orders/send")
    arrives_live(owner, page, screenshot)
    moves_a_group(owner, page, screenshot)
    moves_a_consumer(page)
    owner.get_by_role("link", name="Access tokens").click()
    owner.get_by_role("button", name="Revoke journey").click()
    owner.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("alert")).to_contain_text("You were logged out")
    expect(page.get_by_label("User name")).to_be_visible()
    screenshot(page, "thrown-out")


def create_topic(page: Page, name: str) -> None:
    page.get_by_role("link", name="Streams").click()
    page.get_by_role("button", name="Create a stream").click()
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name").fill("orders")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="orders").click()


def arrives_live(owner: Page, page: Page, screenshot: Screenshot) -> None:
    send(owner, '{"order":1,"lines":[{"article":"tea","amount":12345678901234567890}]}', headers="kind=paid\nto=home")
    row = page.get_by_role("region", name="Messages").get_by_role("row").nth(1)
    expect(row).to_contain_text('{"order":1')
    expect(page.get_by_role("columnheader", name="kind")).to_be_visible()
    expect(row).to_contain_text("paidhome")
    screenshot(page, "live")
    page.get_by_role("button", name="Inspect message 0 of partition 0").click()
    dialog = page.get_by_role("dialog")
    # The number has more digits than a double has.
    expect(dialog.get_by_role("region", name="JSON")).to_contain_text('"amount": 12345678901234567890')
    expect(dialog.get_by_role("row", name="kind paid string")).to_be_visible()
    screenshot(page, "inspector")
    dialog.get_by_role("button", name="Hex").click()
    expect(dialog.locator("pre")).to_contain_text("000000  7b 22 6f 72 64 65 72 22")
    page.keyboard.press("Escape")


def moves_a_group(owner: Page, page: Page, screenshot: Screenshot) -> None:
    page.get_by_role("link", name="Consumers").click()
    page.get_by_role("button", name="Create a group").click()
    page.get_by_role("dialog").get_by_label("Name").fill("billing")
    page.keyboard.press("Enter")
    stored = page.get_by_role("region", name="Offsets of group billing").get_by_role("cell").first
    expect(page.get_by_text("1 message behind")).to_be_visible()
    send(owner, '{"order":2}')
    expect(page.get_by_text("2 messages behind")).to_be_visible()
    screenshot(page, "lag")
    reset(page, "group billing", "with what comes from now on")
    expect(page.get_by_text("0 messages behind")).to_be_visible()
    expect(stored).to_have_text("1")
    send(owner, '{"order":3}')
    expect(page.get_by_text("1 message behind")).to_be_visible()
    reset(page, "group billing", "with the first message")
    expect(page.get_by_text("3 messages behind")).to_be_visible()
    expect(stored).to_have_text("none")


def moves_a_consumer(page: Page) -> None:
    page.get_by_label("Id or name").fill("warehouse")
    page.get_by_role("button", name="Show").click()
    stored = page.get_by_role("region", name="Offsets of consumer warehouse").get_by_role("cell").first
    expect(stored).to_have_text("none")
    reset(page, "consumer warehouse", "at an offset", offset="2")
    expect(stored).to_have_text("1")


def reset(page: Page, whose: str, where: str, *, offset: str | None = None) -> None:
    page.get_by_role("button", name=f"Reset the offset of {whose} in partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Go on reading").select_option(where)
    if offset is not None:
        dialog.get_by_label("Offset of the next message").fill(offset)
    dialog.get_by_role("button", name="Reset").click()
    expect(dialog).to_have_count(0)


def test_only_what_the_filters_let_through_is_shown(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name, partitions=2)
    api.send(topic, [b"first", b"second"], partition=1)
    api.send(topic, [b"elsewhere"], partition=0)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/live")
    filters = page.get_by_role("form", name="What is shown")
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    filters.get_by_label("Begin").select_option("with the first message")
    filters.get_by_role("button", name="Apply").click()
    expect(rows).to_have_count(4)
    filters.get_by_label("Partition").select_option("1")
    filters.get_by_label("Begin").select_option("at an offset")
    filters.get_by_label("Offset").fill("1")
    filters.get_by_role("button", name="Apply").click()
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("second")
    # A paused page shows no new messages, and loses none.
    page.get_by_role("button", name="Pause").click()
    api.send(topic, [b"third", b"fourth"], partition=1)
    page.wait_for_timeout(400)
    assert rows.count() <= 3
    page.get_by_role("button", name="Go on").click()
    expect(rows).to_have_count(4)
    filters.get_by_label("Header", exact=True).select_option("is there")
    filters.get_by_label("Header name").fill("kind")
    filters.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Nothing yet.")).to_be_visible()


def test_the_live_view_reports_what_it_does_not_show(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    topic = api.topic(name)
    api.send(topic, [b"message %d" % number for number in range(700)])
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/messages")
    page.get_by_role("link", name="Watch live").click()
    filters = page.get_by_role("form", name="What is shown")
    filters.get_by_label("Begin").select_option("with the first message")
    filters.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("700 received")).to_contain_text("the newest 500 are shown, 200 are not")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused: the server sends nothing.")).to_be_visible()
    screenshot(page, "live-paused")
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_text("700 received")).not_to_contain_text("are shown")


def test_throughput_is_plotted(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    topic = api.topic(name)
    log_in(page)
    plot = page.get_by_role("img", name="Messages appended")
    expect(plot.locator("canvas")).to_have_count(1)
    expect(plot).to_have_attribute("aria-label", "Messages appended, now 0/s")
    for _ in range(60):
        api.send(topic, [b"x" * 100] * 200)
        if "now 0/s" not in (plot.get_attribute("aria-label") or ""):
            break
        page.wait_for_timeout(50)
    expect(plot).not_to_have_attribute("aria-label", "Messages appended, now 0/s")
    screenshot(page, "overview")


def test_a_fresh_visit_shows_the_last_hour(page: Page, screenshot: Screenshot) -> None:
    """The answer of a server that has been running for an hour, and of one that was away for ten minutes of it."""

    def answer(route: Route) -> None:
        now = int(time.time() * 1_000_000)
        samples = [
            {
                "timestamp": now - 10_000_000 * (359 - number),
                "messages_count": 5_000 * number + 2_000 * (number % 40),
                "messages_size_bytes": 1_000_000 * number,
                "cpu_usage": 40 + number % 25,
                "total_cpu_usage": 20 + number % 15,
                "memory_usage": 2**27 + 2**20 * (number % 50),
            }
            for number in range(360)
            if not 100 <= number < 160
        ]
        route.fulfill(json={"interval_seconds": 10, "samples": samples})

    page.route("**/stats/history", answer)
    log_in(page)
    # The test's own server has just started.
    expect(page.get_by_role("heading", name="The last 3 minutes")).to_be_visible()
    page.get_by_role("button", name="hour", exact=True).click()
    expect(page.get_by_role("heading", name="The last hour")).to_be_visible()
    plots = page.locator(".plot")
    expect(plots).to_have_count(4)
    boxes = [box for index in range(4) if (box := plots.nth(index).bounding_box()) is not None]
    assert len({round(box["x"]) for box in boxes}) == len({round(box["y"]) for box in boxes}) == 2
    # The left half of a plot is of a time before the page was opened.
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector(".plot canvas");
            const pixels = canvas.getContext("2d").getImageData(80, 0, canvas.width / 2 - 80, canvas.height).data;
            let coloured = 0;
            for (let at = 0; at < pixels.length; at += 4)
                if (pixels[at + 3] && pixels[at + 1] - pixels[at] > 60) coloured += 1;
            return coloured > 100;
        }"""
    )
    screenshot(page, "overview-hour")
    page.get_by_role("button", name="3 minutes").click()
    expect(page.get_by_role("heading", name="The last 3 minutes")).to_be_visible()
