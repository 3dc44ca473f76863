"""The same shop with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import headrace
from headrace import aio


async def placed(producer: aio.Producer, orders: Sequence[bytes]) -> list[headrace.Delivered]:
    """Send orders of one customer."""
    deliveries: list[aio.Delivery] = [await producer.send(order, key="customer-7") for order in orders]
    many: aio.Deliveries = await producer.send_many(orders, partition=1, headers={"bulk": True})
    runs: list[tuple[headrace.Delivered, int]] = await many
    assert sum(count for _, count in runs) == len(many) == len(orders)
    return [await delivery for delivery in deliveries]


async def read(consumer: aio.Consumer, count: int) -> list[bytes]:
    """Read a number of orders."""
    found: list[bytes] = []
    async for message in consumer:
        found.append(message.payload)
        await consumer.commit(message)
        if len(found) == count:
            break
    return found


async def copied(client: aio.Client) -> int:
    """Copy orders as tables: each batch as it arrives."""
    count = 0
    async with client.producer("awaited", "copies") as producer, client.consumer("awaited", "orders") as consumer:
        async for batch in consumer.batches(timeout=60):
            deliveries: aio.Deliveries = await producer.write_arrow(batch, key="key")
            runs: list[tuple[headrace.Delivered, int]] = await deliveries
            count += sum(length for _, length in runs)
            if count == 4:
                break
    return count


async def run(url: str) -> list[bytes]:
    """Place orders and read them."""
    assigned: list[int] = []

    async def on_assigned(partitions: Sequence[int]) -> None:
        assigned.extend(partitions)

    client: aio.Client
    async with aio.connect(url, options=headrace.ClientOptions(keepalive=5)) as client:
        await client.create_stream("awaited")
        topic: headrace.Topic = await client.create_topic("awaited", "orders", partitions=2)
        async with client.producer("awaited", topic.name, linger=0.001) as producer:
            await placed(producer, [b"1", b"2"])
            await producer.flush()
            counters: headrace.ProducerCounters = producer.counters
            assert counters.buffered_bytes == 0
        async with client.consumer("awaited", "orders", group="billing", on_assigned=on_assigned) as consumer:
            async with asyncio.timeout(30):
                found = await read(consumer, 4)
            await consumer.seek(0, headrace.FIRST)
            batch: headrace.Batch | None = await consumer.poll(timeout=0)
            assert batch is None or batch.partition_id == 0
        await client.create_topic("awaited", "copies", partitions=2)
        assert await copied(client) == 4
    assert sorted(assigned) == [0, 1]
    return found


def main(url: str) -> list[bytes]:
    """Run it all."""
    return asyncio.run(run(url))
