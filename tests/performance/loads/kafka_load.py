"""confluent-kafka under load, in a process of its own: `python -m tests.performance.loads.kafka_load`.

The address has the form HOST:PORT/TOPIC. Options are the defaults; `acks` is written out, and there is no idempotence,
which the SDK does not have either.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.aio import AIOConsumer, AIOProducer

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
    wait_blocking,
)

_QUEUE_MESSAGES = 1_000_000
"""Messages that may wait in the client: the default of 100,000 is full before the broker is busy."""


def _producing(server: str, **options: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": server,
        "acks": "all",
        "enable.idempotence": False,
        "queue.buffering.max.messages": _QUEUE_MESSAGES,
    } | options


def _consuming(server: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": server,
        "group.id": "load",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }


class LostMessages(Exception):
    """The broker has not all messages that were sent."""


def _check_stored(server: str, topic: str, count: int) -> None:
    consumer = Consumer(_consuming(server))
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
    consumer.close()
    if end != count:
        raise LostMessages(f"{end} messages are stored, {count} were sent")


def _produce(address: str, payload: bytes, count: int) -> Result:
    server, topic = address.split("/")
    producer = Producer(_producing(server))
    clock = Clock()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, payload, partition=0)
            except BufferError:
                producer.poll(0.01)
            else:
                break
        producer.poll(0)
    producer.flush()
    result = clock.result(count)
    _check_stored(server, topic, count)
    return result


def _produce_batches(address: str, payload: bytes, count: int) -> Result:
    server, topic = address.split("/")
    producer = Producer(_producing(server))
    clock = Clock()
    for _ in range(count // BATCH):
        batch = [{"value": payload} for _ in range(BATCH)]
        while producer.produce_batch(topic, batch, partition=0) < len(batch):
            batch = [message for message in batch if "_error" in message]
            producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    result = clock.result(count)
    _check_stored(server, topic, count)
    return result


async def _produce_awaited(address: str, payload: bytes, count: int) -> Result:
    server, topic = address.split("/")
    async with AIOProducer(_producing(server)) as producer:
        clock = Clock()
        for _ in range(count):
            await producer.produce(topic, payload, partition=0)
        await producer.flush()
        result = clock.result(count)
    _check_stored(server, topic, count)
    return result


def _consumer(address: str) -> Consumer:
    server, topic = address.split("/")
    consumer = Consumer(_consuming(server))
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


@asynccontextmanager
async def _awaited_consumer(address: str) -> AsyncGenerator[AIOConsumer]:
    server, topic = address.split("/")
    async with AIOConsumer(_consuming(server)) as consumer:
        await consumer.assign([TopicPartition(topic, 0, 0)])
        yield consumer


def _consume(address: str, _payload: bytes, count: int) -> Result:
    consumer = _consumer(address)
    clock = Clock()
    read = size = 0
    while read < count:
        message = consumer.poll()
        size += len(message.value())
        read += 1
    return clock.result(read)


def _consume_batches(address: str, _payload: bytes, count: int) -> Result:
    consumer = _consumer(address)
    clock = Clock()
    read = size = 0
    while read < count:
        for message in consumer.consume(min(BATCH, count - read)):
            size += len(message.value())
            read += 1
    return clock.result(read)


async def _consume_awaited(address: str, _payload: bytes, count: int) -> Result:
    async with _awaited_consumer(address) as consumer:
        clock = Clock()
        read = size = 0
        while read < count:
            for message in await consumer.consume(min(BATCH, count - read)):
                size += len(message.value())
                read += 1
        return clock.result(read)


class NotDelivered(Exception):
    """The broker has refused a message."""


def _latency(address: str, payload: bytes, _count: int) -> Latency:
    server, topic = address.split("/")
    producer = Producer(_producing(server, **{"linger.ms": 0}))
    delivered: list[object] = []

    def note(error: object, _message: object) -> None:
        if error is not None:
            raise NotDelivered(str(error))
        delivered.append(None)

    seconds = []
    for number, _ in enumerate(rounds(), 1):
        begin = time.perf_counter()
        producer.produce(topic, payload, partition=0, on_delivery=note)
        while len(delivered) < number:
            producer.poll(1.0)
        seconds.append(time.perf_counter() - begin)
    return latency(seconds)


async def _latency_awaited(address: str, payload: bytes, _count: int) -> Latency:
    server, topic = address.split("/")
    # A batch of one message is sent at once. The client asks for outcomes when it sends again, or after a second:
    # without `flush`, each message takes that second.
    async with AIOProducer(_producing(server, **{"linger.ms": 0}), batch_size=1) as producer:
        seconds = []
        for _ in rounds():
            begin = time.perf_counter()
            delivery = await producer.produce(topic, payload, partition=0)
            await producer.flush()
            await delivery
            seconds.append(time.perf_counter() - begin)
        return latency(seconds)


def _wait(address: str, _payload: bytes, idle_seconds: int) -> Waiting:
    server, topic = address.split("/")

    @contextmanager
    def sender() -> Generator[Callable[[bytes], object]]:
        producer = Producer(_producing(server, **{"linger.ms": 0}))
        yield lambda payload: producer.produce(topic, payload, partition=0)
        producer.flush()

    consumer = _consumer(address)
    return wait_blocking(lambda: consumer.poll().value(), sender(), idle_seconds)


async def _wait_awaited(address: str, _payload: bytes, idle_seconds: int) -> Waiting:
    server, topic = address.split("/")

    @asynccontextmanager
    async def sender() -> AsyncGenerator[Callable[[bytes], Awaitable[object]]]:
        async with AIOProducer(_producing(server, **{"linger.ms": 0}), batch_size=1) as producer:
            yield lambda payload: producer.produce(topic, payload, partition=0)

    async with _awaited_consumer(address) as consumer:

        async def receive() -> bytes:
            return bytes((await consumer.poll()).value())

        return await wait_awaited(receive, sender(), idle_seconds)


LOADS: dict[str, Load] = {
    "produce confluent-kafka": _produce,
    "produce confluent-kafka, produce_batch": _produce_batches,
    "produce confluent-kafka.aio": _produce_awaited,
    "consume confluent-kafka": _consume,
    "consume confluent-kafka, consume": _consume_batches,
    "consume confluent-kafka.aio, consume": _consume_awaited,
    "latency confluent-kafka": _latency,
    "latency confluent-kafka.aio": _latency_awaited,
    "waiting confluent-kafka": _wait,
    "waiting confluent-kafka.aio": _wait_awaited,
}
"""Loads by name: what is done, and the client."""


if __name__ == "__main__":
    main(LOADS, __doc__)
