"""Creation of what may exist already, and refusals that name what they are about."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

import headrace


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
