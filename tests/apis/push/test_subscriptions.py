"""Reading by subscriptions (GW-5)."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.apis.http.api import Api, b64, batch
from tests.apis.http.conftest import Reach
from tests.apis.push.browser import BINARY, JSON, PLENTY, Refusal, connected, logged_in
from tests.conftest import StartServer

both = pytest.mark.parametrize("subprotocol", [JSON, BINARY])


def numbers(*which: int) -> list[bytes]:
    return [b"%d" % number for number in which]


@both
async def test_messages_come_as_they_are_sent(root: Api, subprotocol: str) -> None:
    topic = await root.create_topic(f"live-{subprotocol}")
    async with logged_in(root, subprotocol) as browser:
        answer = await browser.subscribe(f"live-{subprotocol}")
        assert [(it["partition_id"], it["offset"]) for it in answer["partitions"]] == [(0, 0)]
        for number in range(5):
            await root.ok("POST", f"{topic}/messages", batch(b"%d" % number, b"x" * number + b"y"))
            assert await browser.payloads(2) == [b"%d" % number, b"x" * number + b"y"]


@both
async def test_a_message_has_everything(root: Api, subprotocol: str) -> None:
    stream = f"whole-{subprotocol}"
    topic = await root.create_topic(stream)
    key, value = {"kind": "string", "value": b64(b"k")}, {"kind": "uint16", "value": b64(b"\x01\x02")}
    body = batch(b"\0\xff")
    body["messages"][0] |= {"id": str(2**127 + 1), "user_headers": [{"key": key, "value": value}]}
    started = time.time_ns() // 1000
    await root.ok("POST", f"{topic}/messages", body)
    async with logged_in(root, subprotocol) as browser:
        answer = await browser.subscribe(stream, start={"kind": "first"})
        event = await browser.event("messages")
    place = {name: answer["partitions"][0][name] for name in ("stream_id", "topic_id", "partition_id", "epoch")}
    assert {name: event[name] for name in place} == place
    assert (event["subscription"], event["next_offset"]) == (1, 1)
    (message,) = event["messages"]
    assert (message["offset"], message["id"], message["payload"]) == (0, str(2**127 + 1), b64(b"\0\xff"))
    assert started <= message["timestamp"] <= time.time_ns() // 1000
    assert started <= message["origin_timestamp"] <= message["timestamp"]
    if subprotocol == JSON:
        assert message["headers"] == [{"key": key, "value": value}]
    else:
        assert message["headers"].endswith(b"\x01\x02")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"kind": "first"}, [0, 1, 2, 3]),
        ({"kind": "last"}, []),
        ({"kind": "offset", "value": 2}, [2, 3]),
        ({"kind": "offset", "value": 4}, []),
        ({"kind": "next"}, [2, 3]),
        ({"kind": "timestamp", "value": 0}, [0, 1, 2, 3]),
        ({"kind": "timestamp", "value": 2**62}, []),
    ],
)
async def test_where_to_begin(root: Api, start: dict, expected: list[int]) -> None:
    name = "-".join(map(str, start.values()))
    topic = await root.create_topic(f"begin-{name}")
    await root.ok("POST", f"{topic}/messages", batch(*numbers(0, 1, 2, 3)))
    await root.ok("PUT", f"{topic}/consumer-offsets", {"offset": 1, "consumer_id": "me", "partition_id": 0})
    async with logged_in(root) as browser:
        answer = await browser.subscribe(f"begin-{name}", start=start, consumer={"id": "me"})
        (partition,) = answer["partitions"]
        assert (partition["first_offset"], partition["next_offset"]) == (0, 4)
        assert partition["offset"] == (expected[0] if expected else 4)
        assert await browser.payloads(len(expected)) == numbers(*expected)
        await root.ok("POST", f"{topic}/messages", batch(b"4"))
        assert await browser.payloads(1) == [b"4"]


async def test_from_the_time_of_a_message(root: Api) -> None:
    topic = await root.create_topic("times")
    times = []
    for number in range(3):
        await root.ok("POST", f"{topic}/messages", batch(b"%d" % number))
        polled = await root.ok("GET", f"{topic}/messages?kind=last&count=1")
        times.append(polled["messages"][0]["header"]["timestamp"])
        await asyncio.sleep(0.002)
    async with logged_in(root) as browser:
        await browser.subscribe("times", start={"kind": "timestamp", "value": times[1]})
        assert await browser.payloads(2) == [b"1", b"2"]


async def test_many_topics_and_partitions(root: Api) -> None:
    one, two = await root.create_topic("many", partitions=3), "/streams/many/topics/u"
    await root.ok("POST", "/streams/many/topics", {"name": "u", "partitions_count": 2})
    topics = [{"stream": "many", "topic": "t", "partitions": [0, 2]}, {"stream": "many", "topic": "u"}]
    async with logged_in(root) as browser:
        answer = await browser.ask("subscribe", subscription=7, topics=topics, credit=PLENTY)
        places = [(it["topic_id"], it["partition_id"]) for it in answer["partitions"]]
        assert places == [(0, 0), (0, 2), (1, 0), (1, 1)]
        for partition in range(3):
            await root.ok("POST", f"{one}/messages", batch(b"t%d" % partition, partition=partition))
        for partition in range(2):
            await root.ok("POST", f"{two}/messages", batch(b"u%d" % partition, partition=partition))
        assert sorted(await browser.payloads(4)) == [b"t0", b"t2", b"u0", b"u1"]
        await browser.silence()


async def test_subscriptions_of_a_connection_are_independent(root: Api) -> None:
    topic = await root.create_topic("independent")
    async with logged_in(root) as browser:
        for number in (1, 2**32 - 1):
            await browser.subscribe("independent", number=number)
        await root.ok("POST", f"{topic}/messages", batch(b"x"))
        events = [await browser.event("messages") for _ in range(2)]
        assert {event["subscription"] for event in events} == {1, 2**32 - 1}
        await browser.ask("unsubscribe", subscription=1)
        await root.ok("POST", f"{topic}/messages", batch(b"y"))
        assert (await browser.event("messages"))["subscription"] == 2**32 - 1
        await browser.silence()
        await browser.subscribe("independent", number=1, start={"kind": "first"})
        assert await browser.payloads(2) == [b"x", b"y"]


async def test_nothing_comes_after_the_end_of_a_subscription(root: Api) -> None:
    topic = await root.create_topic("ended")
    await root.ok("POST", f"{topic}/messages", batch(*(b"x" * 1000 for _ in range(1000))))
    async with logged_in(root) as browser:
        for _ in range(10):
            await browser.subscribe("ended", start={"kind": "first"})
            await browser.event("messages")
            await browser.ask("unsubscribe", subscription=1)
            browser.events.clear()
            await browser.silence(0.05)


@both
async def test_never_more_than_the_credit(root: Api, subprotocol: str) -> None:
    stream = f"credit-{subprotocol}"
    topic = await root.create_topic(stream)
    await root.ok("POST", f"{topic}/messages", batch(*(b"%03d" % number for number in range(100))))
    size = 64 + 3
    async with logged_in(root, subprotocol) as browser:
        await browser.subscribe(stream, start={"kind": "first"}, credit={"messages": 0, "bytes": 0})
        await browser.silence()
        read = 0
        # Limit by number of messages, by bytes, and by neither.
        for messages, size_bytes, expected in ((3, 10_000, 3), (5, 0, 5)):
            await browser.send(type="credit", subscription=1, messages=messages, bytes=size_bytes)
            got = await browser.payloads(expected)
            assert got == [b"%03d" % number for number in range(read, read + expected)]
            read += expected
            await browser.silence(0.1)
        left = 10_000 - 8 * size
        await browser.send(type="credit", subscription=1, messages=100_000, bytes=0)
        rest = -(-left // size)
        assert len(await browser.payloads(min(rest, 100 - read))) == min(rest, 100 - read)
        await browser.silence(0.1)


async def test_the_last_message_may_be_larger_than_what_is_left(root: Api) -> None:
    topic = await root.create_topic("large-last")
    await root.ok("POST", f"{topic}/messages", batch(b"a", b"b" * 5000, b"c"))
    async with logged_in(root) as browser:
        await browser.subscribe("large-last", start={"kind": "first"}, credit={"messages": 10, "bytes": 66})
        assert [len(payload) for payload in await browser.payloads(2)] == [1, 5000]
        # 66 - 65 - 5064 bytes of credit remain: this grant is one byte short of a positive balance.
        await browser.send(type="credit", subscription=1, bytes=5063)
        await browser.silence(0.1)
        await browser.send(type="credit", subscription=1, bytes=1)
        assert await browser.payloads(1) == [b"c"]


async def test_credit_has_an_upper_limit(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"PUSH_MAX_CREDIT_MESSAGES": "5", "PUSH_MAX_CREDIT_SIZE": "1 MiB"})).login()
    topic = await root.create_topic("capped")
    await root.ok("POST", f"{topic}/messages", batch(*(b"x" for _ in range(20))))
    async with connected(root) as browser:
        limits = (await browser.login(root.token))["limits"]
        assert (limits["credit_messages"], limits["credit_bytes"]) == (5, 2**20)
        await browser.subscribe("capped", start={"kind": "first"}, credit={"messages": 2**40, "bytes": 2**40})
        await browser.payloads(5)
        await browser.silence(0.1)
        await browser.send(type="credit", subscription=1, messages=2**53)
        await browser.payloads(5)
        await browser.silence(0.1)


async def test_acknowledgements(root: Api) -> None:
    topic = await root.create_topic("acknowledged", partitions=2)
    for partition in range(2):
        await root.ok("POST", f"{topic}/messages", batch(b"0", b"1", b"2", partition=partition))
    async with logged_in(root) as browser:
        answer = await browser.subscribe("acknowledged", start={"kind": "next"}, consumer={"id": "c"})
        assert [it["offset"] for it in answer["partitions"]] == [0, 0]
        place = {name: answer["partitions"][1][name] for name in ("stream_id", "topic_id", "partition_id")}
        await browser.ask("ack", subscription=1, **place, offset=1)
        stored = await root.ok("GET", f"{topic}/consumer-offsets?consumer_id=c&partition_id=1")
        assert stored["stored_offset"] == 1
        # An acknowledgement without an id gets no response.
        await browser.send(type="ack", subscription=1, **place, offset=2)
        await browser.send(type="ack", subscription=99, **place, offset=2)
        await browser.ask("ping")
        stored = await root.ok("GET", f"{topic}/consumer-offsets?consumer_id=c&partition_id=1")
        assert stored["stored_offset"] == 2
        with pytest.raises(Refusal) as refusal:
            await browser.ask("ack", subscription=1, **place, offset=77)
        assert refusal.value.code == 4100
        with pytest.raises(Refusal) as refusal:
            await browser.ask("ack", subscription=99, **place, offset=1)
        assert (refusal.value.code, refusal.value.field) == (3, "subscription")
    async with logged_in(root) as browser:
        answer = await browser.subscribe("acknowledged", start={"kind": "next"}, consumer={"id": "c"})
        assert [it["offset"] for it in answer["partitions"]] == [0, 3]


@pytest.mark.parametrize(
    ("request_fields", "code", "field"),
    [
        ({"stream": "nothing"}, 1009, "topics[0].stream"),
        ({"topic": "nothing"}, 2010, "topics[0].topic"),
        ({"partitions": [0, 1]}, 3007, "topics[0].partitions"),
        ({"partitions": [0, 0]}, 3, "topics[0].partitions"),
        ({"start": {"kind": "next"}}, 3, "consumer"),
        ({"start": {"kind": "sometimes"}}, 3, "topics[0].start.kind"),
        ({"partitions": [-1]}, 3, "topics[0].partitions[0]"),
        ({"credit": {"messages": 1}}, 3, "credit"),
        ({"number": 2**32}, 3, "subscription"),
        ({"filter": {"headers": [{"name": "x"}]}}, 3, "filter.headers[0]"),
        # 128 characters, but 256 bytes.
        ({"filter": {"key": "ä" * 128}}, 4, "filter.key"),
        ({"colour": "red"}, 3, None),
    ],
)
async def test_refused_subscriptions(root: Api, request_fields: dict, code: int, field: str | None) -> None:
    if (await root("GET", "/streams/refused")).status == 404:
        await root.create_topic("refused")
    async with logged_in(root) as browser:
        fields = {"stream": "refused"} | request_fields
        with pytest.raises(Refusal) as refusal:
            await browser.subscribe(**fields)
        assert (refusal.value.code, refusal.value.field) == (code, field), json.dumps(refusal.value.reason)
        # The subscription number is free, and the connection is still usable.
        await browser.subscribe("refused")
        with pytest.raises(Refusal) as refusal:
            await browser.subscribe("refused")
        assert refusal.value.field == "subscription"
