"""Streams, topics and partitions."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console.api import Api
from tests.console.conftest import Screenshot
from tests.console.steps import log_in, visit


def test_streams_and_topics_come_and_go(page: Page, name: str) -> None:
    log_in(page)
    page.get_by_role("link", name="Streams").click()
    page.get_by_role("button", name="Create a stream").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("link", name=name).click()
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name").fill("orders")
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Messages expire").select_option("1 day")
    page.get_by_role("button", name="Create", exact=True).click()
    row = page.get_by_role("row", name="orders")
    expect(row).to_contain_text("1 d")
    row.get_by_role("link", name="orders").click()
    page.get_by_role("link", name="Partitions").click()
    partitions = page.get_by_role("region", name="Partitions").get_by_role("row")
    expect(partitions).to_have_count(3)
    for title in ("First offset", "Next deletion", "State"):
        expect(partitions.first.get_by_role("columnheader", name=title)).to_be_visible()
    expect(partitions.nth(1)).to_contain_text("serving")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    expect(partitions).to_have_count(4)

    page.get_by_role("link", name="Settings").last.click()
    page.get_by_role("button", name="Delete the topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog.get_by_role("alert")).to_contain_text("orders")
    dialog.get_by_label("to confirm").fill("orders")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.get_by_text("There are no topics in this stream yet.")).to_be_visible()


def test_a_purge_has_to_be_confirmed(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    api.send(topic, [b"one", b"two"])
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/settings")
    expect(page.get_by_text("· 2 messages ·")).to_be_visible()
    page.get_by_role("button", name="Purge").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Purge")).to_be_focused()
    assert api("GET", topic)["messages_count"] == 2
    page.get_by_role("button", name="Purge").click()
    page.get_by_label("to confirm").fill("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_text("· 0 messages ·")).to_be_visible()
    assert api("GET", topic)["messages_count"] == 0


def test_settings_of_a_topic_are_changed(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    topic = api.topic(name)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/settings")
    form = page.get_by_role("form", name="Settings of the topic")
    form.get_by_label("Name").fill("bills")
    form.get_by_label("Compression").select_option("gzip")
    form.get_by_label("Messages expire").select_option("after another time")
    form.get_by_label("After").fill("36")
    form.get_by_label("Unit").select_option("hours")
    form.get_by_label("Size limit").select_option("another size")
    form.get_by_label("At most").fill("25 GiB")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings of bills were saved.")).to_be_visible()
    expect(page.get_by_text("Now: 1 d 12 h")).to_be_visible()
    expect(page.get_by_text("Now: 25.0 GiB")).to_be_visible()
    screenshot(page, "topic-settings")
    topic = f"/streams/{name}/topics/bills"
    found = api("GET", topic)
    assert (found["message_expiry"], found["max_topic_size"]) == (36 * 3600 * 10**6, 25 * 2**30)
    assert found["compression_algorithm"] == "gzip"
    # The page goes on under the new name.
    expect(page.get_by_role("heading", name="bills")).to_be_visible()
    expect(form.get_by_label("After")).to_have_value("36")
    expect(form.get_by_label("At most")).to_have_value("25 GiB")
    form.get_by_label("Messages expire").select_option("never")
    form.get_by_label("Size limit").select_option("no limit")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Now: never")).to_be_visible()
    expect(page.get_by_text("Now: no limit")).to_be_visible()
    assert api("GET", topic)["message_expiry"] == 2**64 - 1
    form.get_by_label("Size limit").select_option("another size")
    form.get_by_label("At most").fill("a lot")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("max_topic_size")


def test_settings_changed_meanwhile_are_kept(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    hour = 3600 * 10**6
    api("PUT", topic, {"name": "orders", "message_expiry": hour})
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/settings")
    form = page.get_by_role("form", name="Settings of the topic")
    expect(form.get_by_label("Messages expire")).to_have_value(str(hour))
    api("PUT", topic, {"name": "orders", "message_expiry": "never", "max_topic_size": "10 GiB"})
    form.get_by_label("Name").fill("bills")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings of bills were saved.")).to_be_visible()
    topic = f"/streams/{name}/topics/bills"
    found = api("GET", topic)
    assert (found["message_expiry"], found["max_topic_size"]) == (2**64 - 1, 10 * 2**30)
    expect(page.get_by_role("heading", name="bills")).to_be_visible()
    expect(form.get_by_label("Messages expire")).to_have_value("never")
    expect(form.get_by_label("Size limit")).to_have_value("10 GiB")

    # Nothing is sent if both have changed the same.
    api("PUT", topic, {"name": "bills", "message_expiry": 7 * 24 * hour, "max_topic_size": "10 GiB"})
    form.get_by_label("Messages expire").select_option("1 day")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("Someone else has changed the same fields meanwhile.")
    expect(form.get_by_label("Messages expire")).to_have_value(str(7 * 24 * hour))
    assert api("GET", topic)["message_expiry"] == 7 * 24 * hour
    form.get_by_label("Messages expire").select_option("1 day")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Now: 1 d")).to_be_visible()
    assert api("GET", topic)["message_expiry"] == 24 * hour


@pytest.mark.parametrize(
    ("expiry", "size"),
    [(90 * 10**6, 10**10), (90 * 10**6 + 1, 10**10 + 1), (2**53 + 1, 2**53 + 1)],
    ids=["decimal", "odd", "large"],
)
def test_any_limit_is_kept(page: Page, api: Api, name: str, expiry: int, size: int) -> None:
    stream = f"{name}_{size}"
    api("PUT", api.topic(stream), {"name": "orders", "message_expiry": expiry, "max_topic_size": size})
    log_in(page)
    visit(page, f"streams/{stream}/topics/orders/settings")
    form = page.get_by_role("form", name="Settings of the topic")
    form.get_by_label("Name").fill("bills")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings of bills were saved.")).to_be_visible()
    found = api("GET", f"/streams/{stream}/topics/bills")
    assert (found["message_expiry"], found["max_topic_size"]) == (expiry, size)


@pytest.mark.long
def test_a_size_without_a_unit_is_one_in_bytes(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/settings")
    form = page.get_by_role("form", name="Settings of the topic")
    for size in (10**10, 2**53 + 1):
        form.get_by_label("Size limit").select_option("another size")
        form.get_by_label("At most").fill(str(size))
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_text("The settings of orders were saved.").last).to_be_visible()
        assert api("GET", topic)["max_topic_size"] == size
        expect(page.get_by_text("The settings of orders were saved.")).to_have_count(0)


def test_partitions_are_deleted_in_one_place(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    topic = api.topic(name, partitions=3)
    log_in(page)
    for place in ("messages", "live", "partitions", "consumers", "send"):
        visit(page, f"streams/{name}/topics/orders/{place}")
        expect(page.get_by_role("navigation", name="Of this topic").locator("[aria-current]")).to_contain_text(
            place.capitalize()
        )
        expect(page.locator("button.danger")).to_have_count(0)
    visit(page, f"streams/{name}/topics/orders/settings")
    page.get_by_role("button", name="Delete partitions").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("How many partitions").fill("2")
    dialog.get_by_label("to confirm").fill("orders")
    screenshot(page, "danger")
    dialog.get_by_role("button", name="Delete partitions").click()
    expect(page.get_by_text("2 partitions deleted.")).to_be_visible()
    assert api("GET", topic)["partitions_count"] == 1


def test_refusals_are_reported_where_they_happen(page: Page, api: Api, name: str) -> None:
    api("POST", "/streams", {"name": name})
    log_in(page)
    visit(page, "streams")
    page.get_by_role("button", name="Create a stream").click()
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("code 1012")


def test_json_that_cannot_be_read_is_named_before_it_is_sent(page: Page, api: Api, name: str) -> None:
    api.topic(name)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/send")
    payload = page.get_by_label("Payload")
    payload.fill('{"order": 1')
    expect(page.get_by_text("This is not JSON:")).to_be_visible()
    payload.fill('{"order": 1}\n{"order": }')
    page.get_by_label("Each line is a message").check()
    expect(page.get_by_text("Message 2 is not JSON:")).to_be_visible()
    payload.fill("no JSON at all")
    expect(page.get_by_text("is not JSON")).to_have_count(0)
