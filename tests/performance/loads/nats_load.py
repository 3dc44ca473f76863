"""nats-py with JetStream under load, in a process of its own: `python -m tests.performance.loads.nats_load`.

It has no blocking client.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

from tests.performance.loads.client_process import (
    BATCH,
    Clock,
    Latency,
    Load,
    Result,
    Waiting,
    latency,
    main,
    rounds,
    wait_awaited,
)
from tests.performance.loads.load import TOPIC


@asynccontextmanager
async def _connected(address: str) -> AsyncGenerator[JetStreamContext]:
    client = await nats.connect(f"nats://{address}")
    yield client.jetstream()
    await client.close()


async def _produce(address: str, payload: bytes, count: int) -> Result:
    async with _connected(address) as stream:
        last = None
        clock = Clock()
        for _ in range(count):
            last = await stream.publish_async(TOPIC, payload)
        await stream.publish_async_completed()
        result = clock.result(count)
        assert last is not None
        assert (await last).seq == count, "everything is stored"
        return result


async def _consume(address: str, _payload: bytes, count: int) -> Result:
    async with _connected(address) as stream:
        clock = Clock()
        consumer = await stream.subscribe(TOPIC, ordered_consumer=True)
        read = size = 0
        while read < count:
            size += len((await consumer.next_msg(timeout=10)).data)
            read += 1
        return clock.result(read)


async def _consume_batches(address: str, _payload: bytes, count: int) -> Result:
    async with _connected(address) as stream:
        clock = Clock()
        consumer = await stream.pull_subscribe(TOPIC, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
        read = size = 0
        while read < count:
            for message in await consumer.fetch(min(BATCH, count - read), timeout=10):
                size += len(message.data)
                read += 1
        return clock.result(read)


async def _latency(address: str, payload: bytes, _count: int) -> Latency:
    async with _connected(address) as stream:
        seconds = []
        for _ in rounds():
            begin = time.perf_counter()
            await stream.publish(TOPIC, payload)
            seconds.append(time.perf_counter() - begin)
        return latency(seconds)


async def _wait(address: str, _payload: bytes, idle_seconds: int) -> Waiting:
    @asynccontextmanager
    async def sender() -> AsyncGenerator[Callable[[bytes], Awaitable[object]]]:
        async with _connected(address) as other:
            yield lambda payload: other.publish(TOPIC, payload)

    async with _connected(address) as stream:
        consumer = await stream.subscribe(TOPIC, ordered_consumer=True)

        async def receive() -> bytes:
            return (await consumer.next_msg(timeout=None)).data

        return await wait_awaited(receive, sender(), idle_seconds)


LOADS: dict[str, Load] = {
    "produce nats-py": _produce,
    "consume nats-py": _consume,
    "consume nats-py, fetch": _consume_batches,
    "latency nats-py": _latency,
    "waiting nats-py": _wait,
}
"""Loads by name: what is done, and the client."""


if __name__ == "__main__":
    main(LOADS, __doc__)
