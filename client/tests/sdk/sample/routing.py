"""Orders that go to many topics, dead letters, and what is counted meanwhile, in both flavours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import headrace
from headrace import (
    ClientOptions,
    DirectProducer,
    DirectProducerOptions,
    Outgoing,
    ReadBatch,
    SentBatch,
    Telemetry,
    aio,
)


class Counts(Telemetry):
    """Numbers of messages."""

    def __init__(self) -> None:
        self.sent = 0
        self.read = 0

    def headers(self, stream: int | str, topic: int | str) -> Mapping[str, str] | None:
        """Name the program."""
        return {"program": f"sample of {stream}/{topic}"}

    def batch_sent(self, batch: SentBatch) -> None:
        """Count what was stored."""
        self.sent += batch.messages if batch.error is None else 0

    def batch_read(self, batch: ReadBatch) -> None:
        """Count what was read."""
        self.read += batch.messages


def routed(producer: DirectProducer, rows: Mapping[str, list[Outgoing]]) -> int:
    """Send rows to the topics of their tables."""
    results = producer.send_groups({("routing", table): messages for table, messages in rows.items()})
    stored = 0
    for result in results.values():
        if isinstance(result, headrace.HeadraceError):
            problem: dict[str, str | int | bool | None] = result.as_dict()
            assert json.dumps(problem)
            continue
        stored += sum(count for _, count in result)
    place: headrace.Delivered = producer.send_to("routing", "orders", b"one", key="customer-7")[0][0]
    return stored + (place.offset is not None)


def letters(client: headrace.Client) -> list[bytes]:
    """Set the first order aside."""
    with client.consumer("routing", "orders", name="letters", dead_letter_topic="aside") as consumer:
        for message in consumer:
            letter: headrace.Delivered = consumer.dead_letter(message, ValueError("no"), attempts=2)
            assert letter.partition_id == 0
            break
    return [letter.payload for letter in client.read("routing", "aside")]


async def awaited(url: str) -> int:
    """Send and set aside with asyncio."""
    async with aio.connect(url) as client, client.direct_producer(delivery_timeout=10) as producer:
        direct: aio.DirectProducer = producer
        runs = await direct.send_to("routing", "orders", [b"2", b"3"], partition=0)
        async with client.consumer("routing", "orders", name="awaited") as consumer:
            async for message in consumer:
                await consumer.dead_letter(message, "no")
                break
        return sum(count for _, count in runs)


def run(url: str) -> tuple[int, int, list[bytes]]:
    """Send, read and count."""
    counts = Counts()
    options = DirectProducerOptions()
    with headrace.connect(url, options=ClientOptions(telemetry=counts)) as client:
        client.create_stream("routing")
        client.create_topic("routing", "orders")
        with client.direct_producer(batch_bytes=options.batch_bytes, max_concurrent_destinations=4) as producer:
            stored = routed(
                producer, {"orders": [Outgoing(b"row", headers={"op": "insert"})], "missing": [Outgoing(b"x")]}
            )
        found = letters(client)
    assert counts.read == stored
    assert asyncio.run(awaited(url)) == 2
    return stored, counts.sent, found
