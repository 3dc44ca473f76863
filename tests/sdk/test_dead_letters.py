"""Dead letters of both flavours: what they keep, where they go, and when a message counts as processed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headrace
from tests.sdk.conftest import url_of
from tests.sdk.flavours import Flavour
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess


async def send(client: Any, stream: str, *payloads: bytes, **options: Any) -> None:
    async with client.producer(stream, "t") as producer:
        await producer.send_many(list(payloads), partition=0, **options)


async def letters(client: Any, stream: str, topic: str = "t-dead") -> list[headrace.Message]:
    return list(await client.read(stream, topic))


async def test_a_letter_keeps_the_message_and_says_why(client: Any, stream: str) -> None:
    headers = {"n": 1, "text": "ü", "flag": True, "raw": b"\x00", "part": 0.5}
    await send(client, stream, b"good", b"bad", key="anna", headers=headers)
    async with client.consumer(stream, "t", group="billing") as consumer:
        async for message in consumer:
            if message.payload == b"bad":
                place = await consumer.dead_letter(message, ValueError("no number"), attempts=3)
                break
    assert (place.partition_id, place.offset) == (0, 0)
    (letter,) = await letters(client, stream)
    assert (letter.payload, letter.key) == (b"bad", b"anna")
    found = letter.headers or {}
    time = datetime.fromisoformat(found.pop("x-dead-letter-time"))
    assert abs(datetime.now(UTC) - time) < timedelta(minutes=5)
    reasons = {name: found.pop(name) for name in list(found) if name.startswith("x-dead-letter-")}
    assert reasons == {
        "x-dead-letter-reason": "no number",
        "x-dead-letter-exception": "ValueError",
        "x-dead-letter-attempts": "3",
        "x-dead-letter-stream": stream[:255],
        "x-dead-letter-topic": "t",
        "x-dead-letter-partition": "0",
        "x-dead-letter-offset": "1",
    }
    assert found == headers


async def test_the_message_counts_as_processed_with_its_letter(client: Any, stream: str) -> None:
    await send(client, stream, b"0", b"1", b"2")
    async with client.consumer(stream, "t", group="billing") as consumer:
        async for message in consumer:
            if message.payload == b"1":
                await consumer.dead_letter(message, "bad")
                break
    async with client.consumer(stream, "t", group="billing") as consumer:
        assert [message.payload for message in await consumer.poll()] == [b"2"]


async def test_a_letter_that_fails_leaves_the_message(client: Any, stream: str) -> None:
    await send(client, stream, b"0", b"1")
    options = {"dead_letter_topic": "missing", "create_dead_letter_topic": False}
    async with client.consumer(stream, "t", group="billing", **options) as consumer:
        async for message in consumer:
            if message.payload == b"1":
                with pytest.raises(headrace.NotFound, match="missing"):
                    await consumer.dead_letter(message, "bad")
                break
    async with client.consumer(stream, "t", group="billing") as consumer:
        assert [message.payload for message in await consumer.poll()] == [b"1"]


async def test_letters_of_a_batch_leave_the_batch_to_the_next_poll(client: Any, stream: str) -> None:
    await send(client, stream, b"0", b"1", b"2")
    async with client.consumer(stream, "t", group="billing", dead_letter_topic="set-aside") as consumer:
        batch = await consumer.poll()
        await consumer.dead_letter(list(batch)[1], "bad")
    # Nothing was committed: the other messages of the batch may not be processed.
    async with client.consumer(stream, "t", group="billing") as consumer:
        assert [message.payload for message in await consumer.poll()] == [b"0", b"1", b"2"]
    assert [letter.payload for letter in await letters(client, stream, "set-aside")] == [b"1"]


async def test_a_letter_of_a_letter_has_its_own_reason(client: Any, stream: str) -> None:
    await send(
        client, stream, b"bad", headers={"x-dead-letter-reason": "old", "x-dead-letter-exception": "Old", "n": 1}
    )
    topic = await client.topic(stream, "t")
    async with client.consumer(stream, topic.id, name="audit") as consumer:
        async for message in consumer:
            await consumer.dead_letter(message, "x" * 300)
            break
    (letter,) = await letters(client, stream)
    headers = letter.headers or {}
    assert headers["x-dead-letter-reason"] == "x" * 255
    assert "x-dead-letter-exception" not in headers
    assert (headers["n"], headers["x-dead-letter-topic"]) == (1, "t")


async def test_a_letter_names_a_stream_that_was_opened_by_its_number(client: Any, stream: str) -> None:
    await send(client, stream, b"bad", b"worse")
    number = (await client.stream(stream)).id
    async with client.consumer(number, "t", name="audit") as consumer:
        for message in await consumer.poll():
            await consumer.dead_letter(message, "bad")
    found = await letters(client, stream)
    assert [(letter.headers or {})["x-dead-letter-stream"] for letter in found] == [stream, stream]


async def test_a_letter_has_the_number_of_a_stream_that_may_not_be_read(
    flavour: Flavour, client: Any, stream: str, url: str
) -> None:
    await send(client, stream, b"bad")
    await client.create_topic(stream, "t-dead")
    number = (await client.stream(stream)).id
    name = f"writer-{flavour}"
    topics = {
        (await client.topic(stream, topic)).id: headrace.TopicPermissions(
            read_topic=True, poll_messages=True, send_messages=True
        )
        for topic in ("t", "t-dead")
    }
    everywhere = headrace.GlobalPermissions()
    streams = {number: headrace.StreamPermissions(topics=topics)}
    permissions = headrace.Permissions(everywhere=everywhere, streams=streams)
    await client.create_user(name, "secret-word", permissions=permissions)
    address = url.rpartition("@")[2]
    async with (
        flavour.connect(f"headrace://{name}:secret-word@{address}") as other,
        other.consumer(number, "t", name="audit") as consumer,
    ):
        with pytest.raises(headrace.PermissionDenied):
            await other.stream(number)
        async for message in consumer:
            await consumer.dead_letter(message, "bad")
            break
    (letter,) = await letters(client, stream)
    assert (letter.headers or {})["x-dead-letter-stream"] == str(number)
    await client.delete_user(name)


async def test_headers_that_leave_no_room_are_left_out(client: Any, stream: str) -> None:
    """The message fits, and its letter would not: it would be in the way of all messages behind it."""
    headers = {f"h{number:03}": "x" * 250 for number in range(378)}
    await send(client, stream, b"bad", key="anna", headers=headers)
    async with client.consumer(stream, "t", group="billing") as consumer:
        async for message in consumer:
            await consumer.dead_letter(message, "y" * 255)
            break
    (letter,) = await letters(client, stream)
    found = letter.headers or {}
    assert (letter.payload, letter.key) == (b"bad", b"anna")
    assert not set(found) & set(headers)
    assert (found["x-dead-letter-headers"], found["x-dead-letter-reason"]) == ("too large", "y" * 255)
    assert found["x-dead-letter-topic"] == "t"


@pytest.mark.parametrize(("reason", "attempts", "problem"), [("", 1, "reason"), ("bad", 0, "attempts")])
async def test_wrong_letters_are_refused(client: Any, stream: str, reason: str, attempts: int, problem: str) -> None:
    await send(client, stream, b"0")
    async with client.consumer(stream, "t", name="audit") as consumer:
        async for message in consumer:
            with pytest.raises(headrace.InvalidArgument, match=f"^{problem}: "):
                await consumer.dead_letter(message, reason, attempts=attempts)
            break


async def test_a_user_without_the_right_is_refused_with_advice(
    flavour: Flavour, client: Any, stream: str, url: str
) -> None:
    await send(client, stream, b"0")
    name = f"reader-{flavour}"
    permissions = headrace.Permissions(everywhere=headrace.GlobalPermissions(read_topics=True, poll_messages=True))
    await client.create_user(name, "secret-word", permissions=permissions)
    address = url.rpartition("@")[2]
    async with (
        flavour.connect(f"headrace://{name}:secret-word@{address}") as reader,
        reader.consumer(stream, "t", name="audit") as consumer,
    ):
        async for message in consumer:
            with pytest.raises(headrace.PermissionDenied, match=r"'t-dead'.* may not create it"):
                await consumer.dead_letter(message, "bad")
            break
    await client.delete_user(name)


async def test_an_uncertain_letter_leaves_the_message(
    flavour: Flavour, shared_server: ServerProcess, stream: str
) -> None:
    with Proxy(shared_server.address) as proxy:
        async with flavour.connect(url_of(proxy.address)) as client:
            await client.create_stream(stream)
            await client.create_topic(stream, "t")
            await send(client, stream, b"0", b"uncertain")
            async with client.consumer(stream, "t", name="audit") as consumer:
                async for message in consumer:
                    if message.payload == b"0":
                        await consumer.dead_letter(message, "bad")
                        continue
                    proxy.cut_answer_to(b"uncertain")
                    with pytest.raises(headrace.OutcomeUnknown):
                        await consumer.dead_letter(message, "bad")
                    break
            async with client.consumer(stream, "t", name="audit") as consumer:
                assert [message.payload for message in await consumer.poll()] == [b"uncertain"]
            await client.delete_stream(stream)
