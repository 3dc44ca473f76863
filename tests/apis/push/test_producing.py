"""Messages that browsers send (GW-5)."""

from __future__ import annotations

import base64
import struct

import pytest

from tests.apis.http.api import Api, b64, payloads
from tests.apis.push.browser import BINARY, Refusal, logged_in
from tests.compatibility.protocol import frames


async def test_messages_are_appended(root: Api) -> None:
    topic = await root.create_topic("produced", partitions=3)
    key, value = {"kind": "string", "value": b64(b"k")}, {"kind": "bool", "value": b64(b"\x01")}
    async with logged_in(root) as browser:
        message = {"payload": b64(b"x"), "id": "77", "headers": [{"key": key, "value": value}]}
        await browser.ask(
            "produce",
            stream="produced",
            topic="t",
            partitioning={"kind": "partition_id", "value": 2},
            messages=[message, {"payload": b64(b"y")}],
        )
        polled = await root.ok("GET", f"{topic}/messages?kind=first&partition_id=2")
        assert payloads(polled) == [b"x", b"y"]
        assert polled["messages"][0]["header"]["id"] == 77
        assert polled["messages"][0]["user_headers"] == [{"key": key, "value": value}]
        for _ in range(3):
            await browser.ask("produce", stream="produced", topic="t", messages=[{"payload": b64(b"z")}])
        counts = [(await root.ok("GET", f"{topic}/messages?kind=first&partition_id={it}"))["count"] for it in range(3)]
        assert sorted(counts) == [1, 1, 3]


async def test_a_key_decides_on_the_partition(root: Api) -> None:
    """A filter by key reads the partition to which the server appends that key."""
    await root.create_topic("keyed", partitions=7)
    async with logged_in(root) as browser:
        for number in range(20):
            key = f"key-{number}-ü"
            await browser.subscribe("keyed", number=number, filter={"key": key})
            await browser.ask(
                "produce",
                stream="keyed",
                topic="t",
                partitioning={"kind": "messages_key", "value": key},
                messages=[{"payload": b64(key.encode())}],
            )
            event = await browser.event("messages")
            assert event["subscription"] == number
            assert [base64.b64decode(it["payload"]).decode() for it in event["messages"]] == [key]
            await browser.ask("unsubscribe", subscription=number)


async def test_batches_in_the_form_of_the_protocol(root: Api) -> None:
    topic = await root.create_topic("raw", partitions=2)
    messages = [frames.message(b"x"), frames.message(b"y" * 1000)]
    async with logged_in(root, BINARY) as browser:
        payload = frames.send("raw", "t", frames.to_partition(1), messages)
        await browser.socket.send_bytes(struct.pack("<B3xI", 1, 2**32 - 1) + payload)
        assert await browser.answer(2**32 - 1)
        polled = await root.ok("GET", f"{topic}/messages?kind=first&partition_id=1")
        assert payloads(polled) == [b"x", b"y" * 1000]
        for number, wrong in enumerate((payload[:-1], b"", payload[4:], b"\xff" * 20)):
            await browser.socket.send_bytes(struct.pack("<B3xI", 1, number) + wrong)
            with pytest.raises(Refusal):
                await browser.answer(number)
        await browser.ask("ping")


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"topic": "nothing"}, 2010, None),
        ({"partitioning": {"kind": "partition_id", "value": 5}}, 3007, None),
        ({"partitioning": {"kind": "partition_id", "value": "5"}}, 3, "partitioning"),
        ({"partitioning": {"kind": "balanced", "value": 5}}, 3, "partitioning"),
        ({"messages": []}, 3, "messages"),
        ({"messages": [{"payload": b64(b"x")}, {"payload": "?"}]}, 3, "messages[1].payload"),
        ({"messages": [{"payload": ""}]}, 4025, "messages[0].payload"),
        ({"messages": [{"payload": b64(b"x"), "id": -1}]}, 3, "messages[0].id"),
        ({"messages": [{"payload": b64(b"x"), "headers": 5}]}, 3, "messages[0].headers"),
    ],
)
async def test_refused_batches(root: Api, fields: dict, code: int, field: str | None) -> None:
    if (await root("GET", "/streams/unproduced")).status == 404:
        await root.create_topic("unproduced")
    async with logged_in(root) as browser:
        request = {"stream": "unproduced", "topic": "t", "messages": [{"payload": b64(b"x")}]} | fields
        with pytest.raises(Refusal) as refusal:
            await browser.ask("produce", **request)
        assert (refusal.value.code, refusal.value.field) == (code, field), refusal.value.reason
        await browser.ask("ping")
        assert (await root.ok("GET", "/streams/unproduced/topics/t/messages"))["count"] == 0
