"""Creation of what may exist already, and refusals that name what they are about and which permission is missing."""

from __future__ import annotations

import inspect
import re
import secrets
import shlex
from typing import Any

import pytest

import headrace
from tests.sdk.flavours import Flavour


async def test_what_exists_may_be_asked_for_again(client: Any) -> None:
    """A program that starts a second time finds what it made the first time."""
    stream = f"again-{secrets.token_hex(4)}"
    made = [await client.create_stream(stream, exist_ok=True) for _ in range(2)]
    assert made[0].id == made[1].id
    topics = [await client.create_topic(stream, "orders", partitions=3, exist_ok=True) for _ in range(2)]
    assert (topics[0].id, topics[0].partitions_count) == (topics[1].id, topics[1].partitions_count)
    groups = [await client.create_group(stream, "orders", "billing", exist_ok=True) for _ in range(2)]
    assert groups[0].id == groups[1].id
    with pytest.raises(headrace.AlreadyExists, match=rf"'orders' in stream '{stream}' exists with 3 partitions, not 4"):
        await client.create_topic(stream, "orders", partitions=4, exist_ok=True)


async def test_refusals_name_what_they_are_about(client: Any) -> None:
    """The status alone says neither which stream nor which topic."""
    stream = f"named-{secrets.token_hex(4)}"
    await client.create_stream(stream)
    await client.create_topic(stream, "orders")
    for refused, kind, named in (
        (client.create_stream(stream), headrace.AlreadyExists, [f"stream '{stream}'"]),
        (client.create_topic(stream, "orders"), headrace.AlreadyExists, [f"stream '{stream}'", "topic 'orders'"]),
        (client.delete_topic(stream, "payments"), headrace.NotFound, [f"stream '{stream}'", "topic 'payments'"]),
        (client.delete_group(stream, "orders", "g"), headrace.NotFound, [f"stream '{stream}'", "group 'g'"]),
        (client.purge_stream("missing"), headrace.NotFound, ["stream 'missing'"]),
    ):
        with pytest.raises(kind) as raised:
            await refused
        assert all(name in str(raised.value) for name in named), raised.value


async def awaited(value: Any) -> Any:
    """Return the result of a call that waits in one flavour alone."""
    return await value if inspect.isawaitable(value) else value


async def test_a_missing_permission_is_named_with_the_command_that_grants_it(
    client: Any, stream: str, url: str, flavour: Flavour
) -> None:
    """The user, the permission and the place are named, and who administers the server copies the command."""
    user = f"bob-{secrets.token_hex(4)}"
    await client.create_user(user, "a secret")
    try:
        async with flavour.connect(url, username=user, password="a secret") as bob:
            given = shlex.quote(stream)
            on_topic, on_stream = f"{given}/t", f"stream {given}"
            of_topic, of_stream = f" --stream {given} --topic t", f" --stream {given}"
            for call, right, place, options in (
                (lambda: bob.topic(stream, "t"), "read_topic", on_topic, of_topic),
                (lambda: bob.read(stream, "t"), "poll_messages", on_topic, of_topic),
                (lambda: bob.flush(stream, "t", 0), "send_messages", on_topic, of_topic),
                (lambda: bob.create_group(stream, "t", "g"), "read_topic", on_topic, of_topic),
                (lambda: bob.purge_topic(stream, "t"), "manage_topic", on_topic, of_topic),
                (lambda: bob.create_topic(stream, "u"), "manage_topics", on_stream, of_stream),
                (lambda: bob.delete_stream(stream), "manage_stream", on_stream, of_stream),
                (lambda: bob.create_stream("more"), "manage_streams", "the server", ""),
                (bob.users, "read_users", "the server", ""),
                (bob.stats, "read_servers", "the server", ""),
            ):
                with pytest.raises(headrace.PermissionDenied) as refused:
                    await call()
                text = f"{user} lacks {right} on {place}: headrace user grant {user} {right}{options}"
                assert f"{text} (Unauthorized, 41)" in str(refused.value)
            for group in ("g", None):
                async with bob.consumer(stream, "t", group=group) as consumer:
                    with pytest.raises(
                        headrace.PermissionDenied, match=re.escape(f"{user} lacks read_topic on {on_topic}: ")
                    ):
                        await consumer.poll(timeout=30)
            with pytest.raises(headrace.PermissionDenied, match=re.escape(f"{user} lacks read_topic on {on_topic}: ")):
                async with bob.producer(stream, "t") as producer:
                    await producer.send(b"x")
    finally:
        await client.delete_user(user)


async def test_a_name_that_does_not_exist_is_in_every_refusal(client: Any, stream: str) -> None:
    """Streams and topics are named to producers and consumers as to calls."""
    for place, missing in (
        ((stream, "missing"), f"there is no topic 'missing' in stream '{stream}'"),
        (("no such", "t"), "there is no stream 'no such'"),
    ):
        with pytest.raises(headrace.NotFound, match=re.escape(missing)):
            await client.read(*place)
        text = re.escape(f"there is no topic {place[1]!r} in stream {place[0]!r}")
        async with client.direct_producer() as direct:
            with pytest.raises(headrace.NotFound, match=text):
                await direct.send_to(*place, b"x", partition=0)
        with pytest.raises(headrace.NotFound, match=text):
            async with client.producer(*place) as producer:
                await producer.send(b"x")
        async with client.consumer(*place) as consumer:
            with pytest.raises(headrace.NotFound, match=text):
                await consumer.poll(timeout=30)
        async with client.consumer(*place, group="g") as member:
            with pytest.raises(headrace.NotFound, match=re.escape(missing)):
                await member.poll(timeout=30)


async def test_a_user_may_read_given_partitions_with_poll_messages_alone(
    client: Any, stream: str, url: str, flavour: Flavour
) -> None:
    """Reading, consuming and scanning named partitions is possible with it."""
    user = f"reader-{secrets.token_hex(4)}"
    topics = {(await client.topic(stream, "t")).id: headrace.TopicPermissions(poll_messages=True)}
    streams = {(await client.stream(stream)).id: headrace.StreamPermissions(topics=topics)}
    permissions = headrace.Permissions(everywhere=headrace.GlobalPermissions(), streams=streams)
    await client.create_user(user, "a secret", permissions=permissions)
    async with client.producer(stream, "t") as producer:
        await producer.send(b"x", partition=1)
    try:
        async with flavour.connect(url, username=user, password="a secret") as reader:
            async with reader.consumer(stream, "t", partitions=[1]) as consumer:
                batch = await consumer.poll(timeout=30)
                assert batch.payloads() == [b"x"]
            scan = await awaited(reader.scan(stream, "t", partitions=[1]))
            assert (await awaited(scan.table())).num_rows == 1
    finally:
        await client.delete_user(user)
