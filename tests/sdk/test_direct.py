"""Producers without a topic, of both flavours: any topic at once, results by topic, and what they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headrace
from headrace import Outgoing
from tests.sdk.conftest import url_of
from tests.sdk.flavours import Flavour
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess


async def payloads(client: Any, stream: str, topic: str, partition: int = 0) -> list[bytes]:
    return [message.payload for message in await client.read(stream, topic, partition=partition, count=10_000)]


async def test_messages_are_stored_when_the_call_returns(client: Any, stream: str) -> None:
    await client.create_topic(stream, "other")
    async with client.direct_producer() as producer:
        runs = await producer.send_to(stream, "t", [b"a", b"b"], partition=1, headers={"n": 1})
        assert [(place.partition_id, place.offset, count) for place, count in runs] == [(1, 0, 2)]
        assert await payloads(client, stream, "t", 1) == [b"a", b"b"]
        runs = await producer.send_to(stream, "other", b"c", key="anna")
        assert [(place.partition_id, place.offset, count) for place, count in runs] == [(0, 0, 1)]
        assert await producer.send_to(stream, "other", []) == []
    (message,) = await client.read(stream, "other")
    assert (message.payload, message.key) == (b"c", b"anna")


async def test_each_message_can_have_its_own_properties(client: Any, stream: str) -> None:
    keys = [f"key-{number}" for number in range(50)]
    async with client.producer(stream, "t") as bound:
        expected = {key: (await (await bound.send(b"", key=key))).partition_id for key in keys}
    messages = [Outgoing(key.encode(), key=key, headers={"twice": n % 2 == 0}) for n, key in enumerate(keys)]
    messages.append(Outgoing(b"last", partition=1, message_id=7))
    async with client.direct_producer() as producer:
        runs = await producer.send_to(stream, "t", messages)
    assert sum(count for _, count in runs) == len(messages)
    found = {}
    for partition in (0, 1):
        for message in await client.read(stream, "t", partition=partition, count=1000):
            if message.payload:
                found[message.payload] = (partition, message)
    assert {key: found[key.encode()][0] for key in keys} == expected
    assert [found[key.encode()][1].headers for key in keys[:2]] == [{"twice": True}, {"twice": False}]
    assert (found[b"last"][0], found[b"last"][1].id) == (1, 7)


async def test_large_calls_are_sent_in_parts_and_in_order(client: Any, stream: str) -> None:
    sent = [b"%06d" % number for number in range(3000)]
    async with client.direct_producer(batch_bytes=10_000) as producer:
        runs = await producer.send_to(stream, "t", sent, partition=0)
    assert sum(count for _, count in runs) == 3000
    assert len(runs) > 10
    assert await payloads(client, stream, "t") == sent


async def test_messages_without_a_place_take_turns(client: Any, stream: str) -> None:
    async with client.direct_producer() as producer:
        places = [(await producer.send_to(stream, "t", b"x"))[0][0].partition_id for _ in range(4)]
    assert sorted(places) == [0, 0, 1, 1]


async def test_groups_fail_and_succeed_by_topic(client: Any, stream: str) -> None:
    topics = [f"t{number}" for number in range(40)]
    for topic in topics:
        await client.create_topic(stream, topic)
    groups: dict[tuple[str, str], list[bytes]] = {(stream, topic): [topic.encode()] * 3 for topic in topics}
    groups[stream, "missing"] = [b"x"]
    async with client.direct_producer(max_concurrent_destinations=7) as producer:
        results = await producer.send_groups(groups)
        assert await producer.send_groups({}) == {}
    assert set(results) == set(groups)
    assert isinstance(results.pop((stream, "missing")), headrace.NotFound)
    assert all([count for _, count in runs] == [3] for runs in results.values())
    assert await payloads(client, stream, "t39") == [b"t39"] * 3


async def test_many_callers_share_a_producer(client: Any, stream: str) -> None:
    async with client.direct_producer() as producer:
        calls = (producer.send_to(stream, "t", [b"%d" % number] * 10, partition=0) for number in range(30))
        results = await asyncio.gather(*calls)
    offsets = sorted(place.offset for runs in results for place, _ in runs)
    assert offsets == [10 * number for number in range(30)]


async def test_a_topic_that_changes_is_looked_up_again(client: Any, stream: str) -> None:
    async with client.direct_producer() as producer:
        await producer.send_to(stream, "t", b"x", partition=1)
        with pytest.raises(headrace.InvalidArgument, match="no partition 2"):
            await producer.send_to(stream, "t", b"x", partition=2)
        await client.delete_topic(stream, "t")
        with pytest.raises(headrace.NotFound):
            await producer.send_to(stream, "t", b"x", partition=1)
        await client.create_topic(stream, "t", partitions=4)
        runs = await producer.send_to(stream, "t", b"x", partition=3)
        assert runs[0][0].partition_id == 3


async def test_bound_and_unbound_calls_do_not_mix(client: Any, stream: str) -> None:
    async with client.direct_producer() as producer:
        for name in ("send", "send_many"):
            with pytest.raises(headrace.InvalidArgument, match=rf"^{name}: this producer has no topic; use send_to"):
                await getattr(producer, name)(b"x")
    async with client.producer(stream, "t") as producer:
        with pytest.raises(headrace.InvalidArgument, match=r"^send_to: this producer sends to topic 't' .* alone"):
            await producer.send_to(stream, "t", b"x")


@pytest.mark.parametrize("option", ["linger", "batch_messages", "in_flight", "buffer_bytes", "resend_uncertain"])
async def test_sending_in_the_background_is_refused_at_construction(client: Any, option: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=rf"^{option}: .*waits for the server's answer"):
        async with client.direct_producer(**{option: 1}):
            pass


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (([b"x", "text"],), "payload: a str is not bytes"),
        (([Outgoing(b"x"), b"y"],), "messages: a bytes is among `Outgoing`"),
        (([Outgoing(b"x", headers={"headrace.key": "k"})],), "this header holds the key"),
        (([Outgoing(b"x", key="")],), "key: it has 0 bytes"),
        (([Outgoing(b"x", message_id=-1)],), "messages|message_id"),
    ],
)
async def test_wrong_messages_are_named(client: Any, stream: str, arguments: Any, problem: str) -> None:
    async with client.direct_producer() as producer:
        with pytest.raises(headrace.InvalidArgument, match=problem):
            await producer.send_to(stream, "t", *arguments)
        with pytest.raises(headrace.InvalidArgument, match=r"^key: the messages are `Outgoing`"):
            await producer.send_to(stream, "t", [Outgoing(b"x")], key="k")
    assert await payloads(client, stream, "t") == []


async def test_a_break_before_the_answer_is_uncertain_and_the_next_call_works(
    flavour: Flavour, shared_server: ServerProcess, stream: str
) -> None:
    with Proxy(shared_server.address) as proxy:
        async with flavour.connect(url_of(proxy.address)) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "t")
            async with client.direct_producer() as producer:
                await producer.send_to(stream, "t", b"0")
                proxy.cut_answer_to(b"uncertain")
                with pytest.raises(headrace.OutcomeUnknown) as raised:
                    await producer.send_to(stream, "t", b"uncertain")
                assert not raised.value.retryable
                # The connection is made again, and the places are still reported.
                assert (await producer.send_to(stream, "t", b"2"))[0][0].offset == 2
            assert await payloads(client, stream, "t") == [b"0", b"uncertain", b"2"]
            await client.delete_stream(stream)


@pytest.mark.long(but=1)
async def test_an_unanswered_call_ends_in_time(flavour: Flavour, shared_server: ServerProcess, stream: str) -> None:
    with Proxy(shared_server.address) as proxy:
        async with flavour.connect(url_of(proxy.address)) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "t")
            # The first call is answered in this time on a busy machine, too.
            async with client.direct_producer(delivery_timeout=5) as producer:
                await producer.send_to(stream, "t", b"0")
                proxy.stall()
                with pytest.raises(headrace.OutcomeUnknown):
                    await producer.send_to(stream, "t", b"1")
                proxy.stall(is_stalled=False)
            await client.delete_stream(stream)
