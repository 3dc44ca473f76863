"""Changes of topics, rights and messages during a subscription (GW-5)."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

import pytest

from tests.apis.http.api import Api, b64, batch, rights
from tests.apis.http.conftest import Reach
from tests.apis.push.browser import BINARY, JSON, WAIT_SECONDS, Browser, Refusal, logged_in
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess

both = pytest.mark.parametrize("subprotocol", [JSON, BINARY])


def place(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("stream_id", "topic_id", "partition_id")}


def header(name: str, kind: str, value: bytes) -> dict[str, Any]:
    return {"key": {"kind": "string", "value": b64(name.encode())}, "value": {"kind": kind, "value": b64(value)}}


async def test_a_purge_begins_a_new_epoch(root: Api) -> None:
    topic = await root.create_topic("purged")
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1", b"2"))
    async with logged_in(root) as live, logged_in(root) as stalled:
        before = (await live.subscribe("purged", start={"kind": "first"}))["partitions"][0]
        await stalled.subscribe("purged", start={"kind": "first"}, credit={"messages": 1, "bytes": 1000})
        assert await live.payloads(3) == [b"0", b"1", b"2"]
        assert await stalled.payloads(1) == [b"0"]
        await root.ok("DELETE", f"{topic}/purge")
        for browser in (live, stalled):
            event = await browser.event("reset")
            assert (place(event), event["offset"]) == (place(before), 0)
            assert event["epoch"] != before["epoch"]
        # More messages than before: the old offsets exist again.
        await root.ok("POST", f"{topic}/messages", batch(*(b"new %d" % number for number in range(5))))
        assert await live.payloads(5) == [b"new %d" % number for number in range(5)]
        await stalled.silence()
        await stalled.send(type="credit", subscription=1, messages=10, bytes=1000)
        assert await stalled.payloads(5) == [b"new %d" % number for number in range(5)]
    async with logged_in(root) as late:
        position = {"partition_id": 0, "offset": 3, "epoch": before["epoch"]}
        answer = await late.subscribe("purged", positions=[position])
        assert answer["partitions"][0]["offset"] == 0
        assert (await late.event("reset"))["offset"] == 0
        assert len(await late.payloads(5)) == 5


async def test_a_topic_that_was_created_again_is_another(root: Api) -> None:
    topic = await root.create_topic("recreated")
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1"))
    async with logged_in(root) as browser:
        before = (await browser.subscribe("recreated", start={"kind": "first"}))["partitions"][0]
        assert len(await browser.payloads(2)) == 2
        await root.ok("DELETE", topic)
        await root.ok("POST", "/streams/recreated/topics", {"name": "t", "partitions_count": 1})
        event = await browser.event("end")
        assert place(event) == place(before)
        assert event["code"] in {1009, 2010, 3007}
        await root.ok("POST", f"{topic}/messages", batch(b"a", b"b", b"c"))
        # The recreated topic has no subscriber.
        await browser.silence(1.5)
        position = {"partition_id": 0, "offset": 2, "epoch": before["epoch"]}
        await browser.subscribe("recreated", number=2, positions=[position])
        assert (await browser.event("reset"))["offset"] == 0
        assert await browser.payloads(3) == [b"a", b"b", b"c"]


async def test_a_client_that_does_not_read_keeps_added_partitions_from_no_other(root: Api) -> None:
    """Regression: new partitions were announced to a client after the one before it had read."""
    topic = await root.create_topic("crowded")
    async with logged_in(root) as stuck, logged_in(root) as live:
        # More than the buffers of both ends hold.
        await stuck.subscribe("crowded", credit={"messages": 1000, "bytes": 64 * 2**20})
        for _ in range(24):
            await root.ok("POST", f"{topic}/messages", batch(bytes(2**20)))
        await live.subscribe("crowded")
        await root.ok("POST", f"{topic}/partitions", {"partitions_count": 1})
        assert [place["partition_id"] for place in (await live.event("added"))["partitions"]] == [1]


async def test_partitions_that_are_added(root: Api) -> None:
    topic = await root.create_topic("grown")
    async with logged_in(root) as browser:
        await browser.subscribe("grown")
        await browser.subscribe("grown", number=2, partitions=[0])
        await root.ok("POST", f"{topic}/partitions", {"partitions_count": 2})
        # Sent before any client can have noticed the new partition.
        await root.ok("POST", f"{topic}/messages", batch(b"early", partition=2))
        event = await browser.event("added")
        assert event["subscription"] == 1
        assert [(it["partition_id"], it["offset"]) for it in event["partitions"]] == [(1, 0), (2, 0)]
        assert await browser.payloads(1) == [b"early"]
        await root.ok("POST", f"{topic}/messages", batch(b"later", partition=1))
        assert await browser.payloads(1) == [b"later"]
        await root.ok("DELETE", f"{topic}/partitions?partitions_count=2")
        ends = [await browser.event("end") for _ in range(2)]
        assert sorted((it["partition_id"], it["code"]) for it in ends) == [(1, 3007), (2, 3007)]
        await root.ok("POST", f"{topic}/partitions", {"partitions_count": 1})
        event = await browser.event("added")
        assert [(it["partition_id"], it["offset"]) for it in event["partitions"]] == [(1, 0)]
        await root.ok("POST", f"{topic}/messages", batch(b"again", partition=1))
        assert await browser.payloads(1) == [b"again"]


@pytest.mark.parametrize("end", ["right", "topic", "stream"])
async def test_what_ends(root: Api, end: str) -> None:
    topic = await root.create_topic(f"over-{end}", partitions=2)
    name = f"over-{end}"
    reader = await root.create_user(name, rights("poll_messages"))
    async with logged_in(reader) as browser:
        await browser.subscribe(f"over-{end}")
        await root.ok("POST", f"{topic}/messages", batch(b"x", partition=0))
        assert await browser.payloads(1) == [b"x"]
        if end == "right":
            await root.ok("PUT", f"/users/{name}/permissions", {"permissions": rights("send_messages")})
        else:
            await root.ok("DELETE", topic if end == "topic" else f"/streams/over-{end}")
        events = [await browser.event("end") for _ in range(2)]
        assert sorted(event["partition_id"] for event in events) == [0, 1]
        codes = {"right": {41}, "topic": {2010, 3007}, "stream": {1009, 2010, 3007}}
        assert {event["code"] for event in events} <= codes[end]
        # The connection is still usable.
        with pytest.raises(Refusal) as refusal:
            await browser.subscribe(f"over-{end}", number=2)
        assert refusal.value.code in {41, 1009, 2010}
        if end == "right":
            await browser.ask("produce", stream=name, topic="t", messages=[{"payload": b64(b"y")}] * 2)
            await browser.silence(1.2)
            await root.ok("PUT", f"/users/{name}/permissions", {"permissions": rights("poll_messages")})
            await browser.subscribe(f"over-{end}", number=2, start={"kind": "first"})
            assert len(await browser.payloads(3)) == 3


async def test_messages_that_are_removed_before_they_are_read(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"SYSTEM_SEGMENT_SIZE": "64 KiB"})).login()
    topic = await root.create_topic("retained")

    async def send(count: int) -> None:
        for _ in range(count):
            await root.ok("POST", f"{topic}/messages", batch(*(b"x" * 1000 for _ in range(10))))

    await send(30)
    async with logged_in(root) as browser:
        answer = await browser.subscribe("retained", start={"kind": "first"}, credit={"messages": 3, "bytes": 10_000})
        epoch = answer["partitions"][0]["epoch"]
        assert [message["offset"] for message in await browser.messages(3)] == [0, 1, 2]
        await root.ok("DELETE", f"{topic}/partitions/0?segments_count=2")
        await browser.send(type="credit", subscription=1, messages=100_000, bytes=10_000_000)
        gap = await browser.event("gap")
        assert gap["from"] == 3
        assert 3 < gap["to"] < 300
        offsets = [message["offset"] for message in await browser.messages(300 - gap["to"])]
        assert offsets == list(range(gap["to"], 300))
    async with logged_in(root) as browser:
        position = {"partition_id": 0, "offset": 5, "epoch": epoch}
        await browser.subscribe("retained", positions=[position])
        event = await browser.event("gap")
        assert (event["from"], event["to"]) == (5, gap["to"])
        assert len(await browser.messages(300 - gap["to"])) == 300 - gap["to"]


async def test_a_position_beyond_the_end_is_refused(root: Api) -> None:
    topic = await root.create_topic("beyond")
    await root.ok("POST", f"{topic}/messages", batch(b"0"))
    async with logged_in(root) as browser:
        epoch = (await browser.subscribe("beyond"))["partitions"][0]["epoch"]
        position = {"partition_id": 0, "offset": 7, "epoch": epoch}
        answer = await browser.subscribe("beyond", number=2, positions=[position])
        assert answer["partitions"][0]["offset"] == 1
        assert (await browser.event("reset"))["offset"] == 1
        await root.ok("POST", f"{topic}/messages", batch(b"1"))
        assert await browser.payloads(2) == [b"1", b"1"]


_INT128 = (2**100).to_bytes(16, "little")


@both
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"name": "text", "equals": "red"}, [0]),
        ({"name": "text", "equals": "re"}, []),
        ({"name": "text", "prefix": "r"}, [0, 1]),
        ({"name": "text", "exists": True}, [0, 1]),
        ({"name": "text", "exists": False}, [2, 3, 4, 5]),
        ({"name": "number", "equals": -5}, [2]),
        ({"name": "number", "equals": -5.0}, [2]),
        ({"name": "number", "equals": str(2**100)}, [3]),
        ({"name": "flag", "equals": True}, [4]),
        ({"name": "flag", "equals": 1}, []),
        ({"name": "float", "equals": 0.1}, [4]),
        ({"name": "raw", "equals": b64(b"\0\xff")}, [5]),
    ],
)
async def test_conditions_on_headers(root: Api, subprotocol: str, condition: dict, expected: list[int]) -> None:
    if (await root("GET", "/streams/filtered")).status == 404:
        topic = await root.create_topic("filtered")
        headers = (
            [header("text", "string", b"red")],
            [header("text", "string", b"rose"), header("other", "string", b"x")],
            [header("number", "int32", (-5).to_bytes(4, "little", signed=True))],
            [header("number", "uint128", _INT128)],
            [header("flag", "bool", b"\1"), header("float", "float32", bytes.fromhex("cdcccc3d"))],
            [header("raw", "raw", b"\0\xff")],
        )
        body = batch(*(b"%d" % number for number in range(6)))
        for message, of_message in zip(body["messages"], headers, strict=True):
            message["user_headers"] = of_message
        await root.ok("POST", f"{topic}/messages", body)
    async with logged_in(root, subprotocol) as browser:
        await browser.subscribe("filtered", start={"kind": "first"}, filter={"headers": [condition]})
        event = await browser.event("messages")
        assert [message["offset"] for message in event["messages"]] == expected
        assert event["next_offset"] == 6
        await browser.silence(0.05)


async def test_a_malformed_header_ends_no_subscription(root: Api, shared_server: ServerProcess) -> None:
    topic = await root.create_topic("malformed")
    # A sender over the binary protocol may store a float of one byte.
    float_of_a_byte = b"\x02" + frames.u32(5) + b"float" + b"\x0e" + frames.u32(1) + b"\0"
    with RawConnection.as_root(shared_server.address) as connection:
        connection.send("malformed", "t", 0, b"bad", headers=float_of_a_byte)
    body = batch(b"good")
    body["messages"][0]["user_headers"] = [header("float", "float32", bytes.fromhex("0000003f"))]
    await root.ok("POST", f"{topic}/messages", body)
    async with logged_in(root) as browser:
        condition = {"name": "float", "equals": 0.5}
        await browser.subscribe("malformed", start={"kind": "first"}, filter={"headers": [condition]})
        assert [message["offset"] for message in await browser.messages(1)] == [1]


async def test_what_is_left_out_takes_no_credit(root: Api) -> None:
    topic = await root.create_topic("sparse")
    body = batch(*(b"%d" % number for number in range(100)))
    for number, message in enumerate(body["messages"]):
        message["user_headers"] = [header("n", "uint8", bytes((number % 10,)))]
    await root.ok("POST", f"{topic}/messages", body)
    async with logged_in(root) as browser:
        await browser.subscribe(
            "sparse",
            start={"kind": "first"},
            filter={"headers": [{"name": "n", "equals": 7}]},
            credit={"messages": 4, "bytes": 10_000},
        )
        messages = await browser.messages(4)
        assert [message["offset"] for message in messages] == [7, 17, 27, 37]
        await browser.silence(0.1)
        await browser.send(type="credit", subscription=1, messages=10)
        assert len(await browser.messages(6)) == 6
        # Progress is sent once a second, not with every batch.
        began = time.monotonic()
        for _ in range(15):
            await root.ok("POST", f"{topic}/messages", batch(b"x"))
            await asyncio.sleep(0.1)
        async with asyncio.timeout(WAIT_SECONDS):
            await browser.ask("ping")
            while not browser.events:
                await asyncio.sleep(0.05)
                await browser.ask("ping")
        assert all(event["messages"] == [] for event in browser.events)
        reported = len(browser.events)
        assert 1 <= reported <= time.monotonic() - began + 2
        assert 100 < browser.events[-1]["next_offset"] <= 115


async def test_a_key_that_moves_is_followed(root: Api) -> None:
    """A different partition count moves a key to another partition; no message is lost."""
    topic = await root.create_topic("moved", partitions=2)
    keys = [b"key %d" % number for number in range(8)]

    async def send(text: bytes) -> None:
        for key in keys:
            await root.ok("POST", f"{topic}/messages", batch(key + text, key=key))

    async with logged_in(root) as browser:
        for number, key in enumerate(keys):
            answer = await browser.subscribe("moved", number=number, filter={"key": key.decode()})
            assert len(answer["partitions"]) == 1
        await send(b" before")
        await root.ok("POST", f"{topic}/partitions", {"partitions_count": 1})
        await send(b" after")
        missing = {(number, key + text) for number, key in enumerate(keys) for text in (b" before", b" after")}
        while missing:
            event = await browser.event("messages", "added")
            if event["type"] == "messages":
                missing -= {(event["subscription"], payload) for payload in _payloads(event)}


def _payloads(event: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(message["payload"]) for message in event["messages"]]


async def test_a_slow_reader_delays_no_other(root: Api) -> None:
    """A client grants credit and does not read: the server buffers little for it, and others get all messages."""
    topic = await root.create_topic("slow")
    async with logged_in(root) as slow, logged_in(root) as quick:
        for browser in (slow, quick):
            await browser.subscribe("slow", credit={"messages": 100_000, "bytes": 64 * 2**20})
        _pause(slow)
        for number in range(100):
            await root.ok("POST", f"{topic}/messages", batch(*(b"%04d" % number + b"x" * 10_000 for _ in range(10))))
        assert len(await quick.messages(1000)) == 1000
        _resume(slow)
        assert [message["offset"] for message in await slow.messages(1000)] == list(range(1000))


def _pause(browser: Browser) -> None:
    assert browser.socket._conn is not None
    assert browser.socket._conn.transport is not None
    browser.socket._conn.transport.pause_reading()


def _resume(browser: Browser) -> None:
    assert browser.socket._conn is not None
    assert browser.socket._conn.transport is not None
    browser.socket._conn.transport.resume_reading()
