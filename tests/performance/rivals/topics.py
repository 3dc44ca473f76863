"""Topics of one partition in other logs; their messages are deleted afterwards. Values are addresses for loads."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import nats
from confluent_kafka.admin import AdminClient, NewTopic
from nats.js import JetStreamContext
from nats.js.api import StorageType

from tests.performance.loads.load import STREAM, TOPIC


@contextmanager
def kafka_topic(address: str) -> Generator[str]:
    """Create a topic for the duration of a ``with`` block.

    Each has a name of its own: a broker that is late takes messages for a deleted topic of the same name.
    """
    name = f"{TOPIC}-{uuid.uuid4().hex}"
    # It reports events that no caller waits for.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])[name].result()
    yield f"{address}/{name}"
    admin.delete_topics([name])[name].result()


@contextmanager
def nats_stream(address: str) -> Generator[str]:
    """Create the stream of the loads, in files, for the duration of a ``with`` block."""

    async def create(context: JetStreamContext) -> None:
        await context.add_stream(name=STREAM, subjects=[TOPIC], storage=StorageType.FILE)

    async def delete(context: JetStreamContext) -> None:
        await context.delete_stream(STREAM)

    async def with_context(act: Callable[[JetStreamContext], Awaitable[None]]) -> None:
        client = await nats.connect(f"nats://{address}")
        await act(client.jetstream())
        await client.close()

    asyncio.run(with_context(create))
    yield address
    asyncio.run(with_context(delete))
