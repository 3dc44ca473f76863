"""The browser of a topic's messages."""

from __future__ import annotations

import base64
import json

import pytest
from playwright.sync_api import Locator, Page, expect

import headrace
from tests.console.api import Api
from tests.console.conftest import OpenContext, Screenshot
from tests.console.steps import log_in, visit
from tests.rights import GLOBAL_RIGHTS, STREAM_RIGHTS
from tests.server_process import PASSWORD, USERNAME, ServerProcess

# A paused test does not see a text that is shown for two seconds.
RECORDED = """() => {
    window.recorded = "";
    const record = () => { window.recorded += document.body.innerText; };
    new MutationObserver(record).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Keep every text that the page shows from now on."""


def rows(page: Page) -> Locator:
    """Rows of the table, the first of which is its head."""
    return page.get_by_role("region", name="Messages").get_by_role("row")


@pytest.mark.long
def test_the_newest_messages_of_all_partitions_are_shown_in_pages(
    page: Page, api: Api, name: str, screenshot: Screenshot
) -> None:
    topic = api.topic(name, partitions=3)
    for number in range(0, 130, 10):
        for partition in range(3):
            orders = [json.dumps({"order": number + at, "partition": partition}).encode() for at in range(10)]
            api.send(topic, orders, partition=partition)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    expect(rows(page)).to_have_count(51)
    expect(page.get_by_text("50 messages · 340 older · 0 newer")).to_be_visible()
    expect(rows(page).nth(1)).to_contain_text('{"order": 129, "partition": 2}')
    expect(rows(page).nth(11)).to_contain_text('{"order": 129, "partition": 1}')
    expect(rows(page).nth(50)).to_contain_text('{"order": 110, "partition": 1}')
    screenshot(page, "messages")
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("50 messages · 290 older · 50 newer")).to_be_visible()
    expect(rows(page).nth(1)).to_contain_text('{"order": 119, "partition": 0}')
    api.send(topic, [b"the newest"], partition=1)
    page.get_by_role("button", name="Newer").click()
    expect(page.get_by_text("50 messages · 340 older · 1 newer")).to_be_visible()
    page.get_by_role("button", name="Newest").click()
    expect(rows(page).nth(1)).to_contain_text("the newest")


def test_a_jump_shows_what_follows_in_order(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name, partitions=2)
    api.send(topic, [b"early %d" % number for number in range(60)], partition=1)
    api.send(topic, [b"elsewhere"], partition=0)
    middle = api("GET", f"{topic}/messages?partition_id=0&kind=first&count=1")["messages"][0]["header"]["timestamp"]
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    form = page.get_by_role("form", name="Where to read")
    form.get_by_label("Partition").select_option("1")
    form.get_by_label("Begin").select_option("at an offset")
    form.get_by_label("Offset").fill("58")
    form.get_by_role("button", name="Show").click()
    expect(rows(page)).to_have_count(3)
    expect(rows(page).nth(1)).to_contain_text("early 58")
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("50 messages · 8 older · 2 newer")).to_be_visible()
    expect(rows(page).nth(1)).to_contain_text("early 8")
    form.get_by_label("Partition").select_option("all")
    form.get_by_label("Begin").select_option("with the first message")
    form.get_by_role("button", name="Show").click()
    expect(rows(page).nth(1)).to_contain_text("early 0")
    form.get_by_label("Begin").select_option("at a time")
    moment = page.evaluate(
        "micros => { const at = new Date(micros / 1000 + 1000);"
        "return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19) }",
        middle,
    )
    form.get_by_label("Time").fill(moment)
    form.get_by_role("button", name="Show").click()
    expect(page.get_by_text("There are no messages from here on.")).to_be_visible()
    page.get_by_role("button", name="Older").click()
    expect(rows(page)).to_have_count(51)


def test_a_text_is_found_in_the_page_and_in_the_topic(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    topic = api.topic(name, partitions=2)
    api.send(topic, [b"a NEEDLE in the past", *(b"hay %d" % number for number in range(6000))], partition=1)
    api.send(topic, [b"hay", b"a needle of today"], partition=0)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    expect(rows(page)).to_have_count(51)
    page.get_by_label("Contains").fill("needle")
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_text("1 of 50 messages")).to_be_visible()
    page.get_by_role("button", name="Search the topic").click()
    expect(page.get_by_text("complete", exact=True)).to_be_visible()
    expect(page.get_by_text("6,003 of 6,003 searched · 2 found")).to_be_visible()
    expect(rows(page)).to_have_count(3)
    expect(rows(page).nth(2)).to_contain_text("a NEEDLE in the past")
    screenshot(page, "messages-search")
    page.get_by_role("button", name="Back to the messages").click()
    page.get_by_label("Contains").fill("hay")
    page.get_by_role("button", name="Search the topic").click()
    # A search pauses when it has found a page of messages.
    expect(page.get_by_text("stopped", exact=True)).to_be_visible()
    found = page.get_by_text("51 found")
    expect(found).to_be_visible()
    page.get_by_role("button", name="Search on").click()
    expect(page.get_by_text("101 found")).to_be_visible()


def test_a_search_can_be_stopped(page: Page, api: Api, name: str) -> None:
    topic = api.topic(name)
    api.send(topic, [b"hay"] * 20_000)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    expect(rows(page)).to_have_count(51)
    page.route("**/messages/search?*offset=10000&*", lambda route: None)
    page.get_by_label("Contains").fill("needle")
    page.keyboard.press("Enter")
    expect(page.get_by_text("5,000 of 20,000 searched · 0 found")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("stopped", exact=True)).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_role("button", name="Search on").click()
    expect(page.get_by_text("20,000 of 20,000 searched · 0 found")).to_be_visible()
    expect(page.get_by_text("No message of the topic contains the text.")).to_be_visible()


def test_headers_are_columns_and_json_folds(
    open_context: OpenContext, api: Api, name: str, screenshot: Screenshot
) -> None:
    topic = api.topic(name)
    header = {
        "key": {"kind": "string", "value": base64.b64encode(b"region").decode()},
        "value": {"kind": "string", "value": base64.b64encode(b"north").decode()},
    }
    payload = b'{"order":{"id":12345678901234567890,"lines":[{"article":"tea"}]},"paid":true}'
    messages = [
        {"payload": base64.b64encode(payload).decode(), "user_headers": [header]},
        {"payload": base64.b64encode(bytes(range(256))).decode()},
    ]
    api("POST", f"{topic}/messages", {"partitioning": {"kind": "balanced"}, "messages": messages})
    page = open_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    expect(page.get_by_role("columnheader", name="region")).to_be_visible()
    expect(rows(page).nth(2)).to_contain_text("north")
    page.get_by_role("button", name="Inspect message 0 of partition 0").click()
    dialog = page.get_by_role("dialog")
    tree = dialog.get_by_role("region", name="JSON")
    expect(tree).to_contain_text('"id": 12345678901234567890')
    screenshot(page, "messages-json")
    dialog.get_by_text('"order"').click()
    expect(dialog.get_by_text('"article"')).to_be_hidden()
    expect(dialog.get_by_text("2 fields").locator("visible=true")).to_have_count(1)
    page.evaluate(RECORDED)
    dialog.get_by_role("button", name="Copy", exact=True).click()
    page.wait_for_function("() => window.recorded.includes('Copied')")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert '    "id": 12345678901234567890,\n' in copied
    assert json.loads(copied) == json.loads(payload)
    dialog.get_by_role("button", name="Copy the message").click()
    page.wait_for_function("""async () => (await navigator.clipboard.readText()).includes('"offset"')""")
    whole = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
    assert (whole["offset"], whole["headers"], whole["payload"]) == (0, {"region": "north"}, payload.decode())
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Inspect message 1 of partition 0").click()
    expect(dialog.locator("pre")).to_contain_text("000000  00 01 02")
    expect(dialog.get_by_role("button", name="JSON")).to_have_count(0)


def string(name: str, value: str) -> dict[str, dict[str, str]]:
    """Return a header with a text."""
    key, text = (base64.b64encode(part.encode()).decode() for part in (name, value))
    return {"key": {"kind": "string", "value": key}, "value": {"kind": "string", "value": text}}


def test_dead_letters_are_read_without_scrolling(page: Page, api: Api, name: str, screenshot: Screenshot) -> None:
    """Payload and reason come first: a person on call opens this page before any other."""
    topic = api.topic(name)
    parts = ("attempts", "exception", "offset", "partition", "stream", "time", "topic")
    headers = [string(f"x-dead-letter-{part}", "3") for part in parts]
    headers.append(string("x-dead-letter-reason", "the price is negative"))
    messages = [
        {"payload": base64.b64encode(b'{"price": -1}').decode(), "user_headers": [*headers, string("region", "north")]}
    ]
    api("POST", f"{topic}/messages", {"partitioning": {"kind": "balanced"}, "messages": messages})
    page.set_viewport_size({"width": 1440, "height": 900})
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    table = page.get_by_role("region", name="Messages")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["Offset", "Partition", "Payload", "Why", "Time", "Size", "region", "More headers"]
    )
    screenshot(page, "dead-letters")
    right = page.evaluate("document.documentElement.clientWidth")
    for text in ('{"price": -1}', "the price is negative"):
        box = table.get_by_text(text).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= right


def test_a_dead_letter_without_its_headers_stays(page: Page, api: Api, name: str) -> None:
    """Headers that readers of the topic may need are missing; the dialog says so instead of sending it back."""
    topic = api.topic(name)
    parts = {"stream": name, "topic": "orders", "reason": "no JSON", "headers": "too large"}
    headers = [string(f"x-dead-letter-{part}", text) for part, text in parts.items()]
    messages = [{"payload": base64.b64encode(b"x").decode(), "user_headers": headers}]
    api("POST", f"{topic}/messages", {"partitioning": {"kind": "balanced"}, "messages": messages})
    log_in(page)
    visit(page, f"streams/{name}/topics/orders")
    page.get_by_role("button", name="Inspect message 0 of partition 0").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It cannot be sent back: its own headers are not in it, as they were too large.")
    expect(dialog.get_by_role("button", name="Send back")).to_have_count(0)


def test_a_message_with_a_key_is_sent(page: Page, api: Api, name: str, shared_server: ServerProcess) -> None:
    """The key chooses the partition, and consumers of the SDK read it."""
    api.topic(name, partitions=3)
    log_in(page)
    visit(page, f"streams/{name}/topics/orders/send")
    for payload in ("one", "two"):
        page.get_by_label("Key").fill("customer-7")
        page.get_by_label("Payload").fill(payload)
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("1 message sent.").last).to_be_visible()
    with (
        headrace.connect(f"headrace://{USERNAME}:{PASSWORD}@{shared_server.address}") as client,
        client.consumer(name, "orders") as consumer,
    ):
        found = []
        while len(found) < 2:
            batch = consumer.poll(timeout=30)
            assert batch is not None
            found += [(message.key, message.payload, message.partition_id) for message in batch]
    (first, second) = found
    assert (first[:2], second[:2]) == ((b"customer-7", b"one"), (b"customer-7", b"two"))
    assert first[2] == second[2]
    visit(page, f"streams/{name}/topics/orders")
    page.get_by_role("button", name="Inspect message 0").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("customer-7")).to_be_visible()
    expect(dialog.get_by_text("It has no headers.")).to_be_visible()


@pytest.mark.long
def test_a_dead_letter_goes_back(
    page: Page, api: Api, name: str, shared_server: ServerProcess, screenshot: Screenshot
) -> None:
    """Payload, key and all headers of the message return to its topic; a refusal is shown."""
    # A number in a path would be an id.
    api.topic(name, "7")
    address = f"headrace://{USERNAME}:{PASSWORD}@{shared_server.address}"
    headers = {"region": "north", "attempt": 3, "raw": b"\xff\x00"}
    with headrace.connect(address) as client, client.producer(name, "7") as producer:
        producer.send(b"\x00 no JSON", key=b"\xfe key", headers=headers)
    with headrace.connect(address) as client, client.consumer(name, "7", group="billing") as consumer:
        batch = consumer.poll(timeout=30)
        assert batch is not None
        (message,) = batch
        consumer.dead_letter(message, ValueError("the price is negative"), attempts=2)
    reader = {"username": f"{name}-reader", "password": "secret", "status": "active"}
    (stream,) = (stream for stream in api("GET", "/streams") if stream["name"] == name)
    rights = {right: right in {"read_stream", "read_topics", "poll_messages"} for right in STREAM_RIGHTS}
    permissions = {
        "global": dict.fromkeys(GLOBAL_RIGHTS, False),
        "streams": {str(stream["id"]): rights | {"topics": None}},
    }
    api("POST", "/users", {**reader, "permissions": permissions})

    log_in(page, reader["username"], reader["password"])
    send_back(page, name)
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("does not have the right")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_contain_text("Message 0 of partition 0")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Log out").click()

    log_in(page)
    page.goto("/")
    send_back(page, name)
    expect(page.get_by_text("The message was sent back to 7.")).to_be_visible()
    screenshot(page, "dead-letter-sent-back")
    with headrace.connect(address) as client:
        first, second = client.read(name, "7")
        (letter,) = client.read(name, "7-dead")
        assert (second.payload, second.key, second.headers) == (first.payload, first.key, first.headers)
        # As with `headrace connect redrive`: readers can recognise a letter that was sent twice.
        assert second.id == letter.id
        assert second.user_headers == first.user_headers


def send_back(page: Page, stream: str) -> None:
    """Confirm to send the first dead letter back."""
    visit(page, f"streams/{stream}/topics/7-dead")
    page.get_by_role("button", name="Inspect message 0 of partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Send back to 7").click()
    expect(dialog).to_contain_text(f"to the topic 7 of the stream {stream}")
    dialog.get_by_role("button", name="Send back", exact=True).click()
