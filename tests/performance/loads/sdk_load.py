"""The SDK or the official client under load, in a process of its own: `python -m tests.performance.loads.sdk_load`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import pyarrow as pa
from apache_iggy import IggyClient, PollingStrategy, SendMessage

import headrace
import headrace.aio
import headrace.tables
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
from tests.performance.loads.load import STREAM, TOPIC
from tests.server_process import PASSWORD, USERNAME


def _produce_blocking(address: str, payload: bytes, count: int) -> Result:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = Clock()
        for _ in range(count):
            producer.send(payload, partition=0)
        producer.flush()
        return clock.result(count)


def _produce_many(address: str, payload: bytes, count: int) -> Result:
    batch = [payload] * BATCH
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = Clock()
        for _ in range(count // BATCH):
            producer.send_many(batch, partition=0)
        producer.flush()
        return clock.result(count)


def _produce_arrow(address: str, payload: bytes, count: int) -> Result:
    table = pa.table({"value": [payload] * BATCH, "partition": pa.array([0] * BATCH, pa.int32())})
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = Clock()
        for _ in range(count // BATCH):
            producer.write_arrow(table)
        producer.flush()
        return clock.result(count)


async def _produce_async(address: str, payload: bytes, count: int) -> Result:
    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = Clock()
        for _ in range(count):
            await producer.send(payload, partition=0)
        await producer.flush()
        return clock.result(count)


async def _official(address: str) -> IggyClient:
    client = IggyClient(address)
    await client.connect()
    await client.login_user(USERNAME, PASSWORD)
    return client


async def _produce_official(address: str, payload: bytes, count: int) -> Result:
    client = await _official(address)
    text = payload.decode()
    clock = Clock()
    for _ in range(count // BATCH):
        await client.send_messages(STREAM, TOPIC, 0, [SendMessage(text) for _ in range(BATCH)])
    return clock.result(count)


def _consume_blocking(address: str, _payload: bytes, count: int) -> Result:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        clock = Clock()
        read = size = 0
        for message in consumer:
            size += len(message.payload)
            read += 1
            if read == count:
                break
        return clock.result(read)


def _consume_batches(address: str, _payload: bytes, count: int) -> Result:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        clock = Clock()
        read = 0
        while read < count:
            columns = consumer.poll_arrow(columns=["offset", "value"])
            read += columns.num_rows if columns is not None else 0
        return clock.result(read)


async def _consume_async(address: str, _payload: bytes, count: int) -> Result:
    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        clock = Clock()
        read = size = 0
        async for message in consumer:
            size += len(message.payload)
            read += 1
            if read == count:
                break
        return clock.result(read)


async def _consume_official(address: str, _payload: bytes, count: int) -> Result:
    client = await _official(address)
    clock = Clock()
    read = size = 0
    while read < count:
        found = await client.poll_messages(STREAM, TOPIC, 0, PollingStrategy.Offset(read), BATCH, auto_commit=False)
        for message in found:
            size += len(message.payload())
            read += 1
    return clock.result(read)


def _latency_blocking(address: str, payload: bytes, _count: int) -> Latency:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC, linger=0) as producer,
    ):
        seconds = []
        for _ in rounds():
            begin = time.perf_counter()
            producer.send(payload, partition=0).result()
            seconds.append(time.perf_counter() - begin)
        return latency(seconds)


async def _latency_async(address: str, payload: bytes, _count: int) -> Latency:
    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC, linger=0) as producer,
    ):
        seconds = []
        for _ in rounds():
            begin = time.perf_counter()
            await (await producer.send(payload, partition=0))
            seconds.append(time.perf_counter() - begin)
        return latency(seconds)


async def _latency_official(address: str, payload: bytes, _count: int) -> Latency:
    client = await _official(address)
    text = payload.decode()
    seconds = []
    for _ in rounds():
        begin = time.perf_counter()
        await client.send_messages(STREAM, TOPIC, 0, [SendMessage(text)])
        seconds.append(time.perf_counter() - begin)
    return latency(seconds)


def _wait_blocking(address: str, _payload: bytes, idle_seconds: int) -> Waiting:
    @contextmanager
    def sender() -> Generator[Callable[[bytes], object]]:
        with client.producer(STREAM, TOPIC, linger=0) as producer:
            yield lambda payload: producer.send(payload, partition=0)

    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        messages = iter(consumer)
        return wait_blocking(lambda: next(messages).payload, sender(), idle_seconds)


async def _wait_async(address: str, _payload: bytes, idle_seconds: int) -> Waiting:
    @asynccontextmanager
    async def sender() -> AsyncGenerator[Callable[[bytes], Awaitable[object]]]:
        async with client.producer(STREAM, TOPIC, linger=0) as producer:
            yield lambda payload: producer.send(payload, partition=0)

    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        messages = aiter(consumer)

        async def receive() -> bytes:
            return (await anext(messages)).payload

        return await wait_awaited(receive, sender(), idle_seconds)


LOADS: dict[str, Load] = {
    "produce headrace": _produce_blocking,
    "produce headrace, send_many": _produce_many,
    "produce headrace, write_arrow": _produce_arrow,
    "produce headrace.aio": _produce_async,
    "produce apache-iggy": _produce_official,
    "consume headrace": _consume_blocking,
    "consume headrace, Arrow": _consume_batches,
    "consume headrace.aio": _consume_async,
    "consume apache-iggy": _consume_official,
    "latency headrace": _latency_blocking,
    "latency headrace.aio": _latency_async,
    "latency apache-iggy": _latency_official,
    "waiting headrace": _wait_blocking,
    "waiting headrace.aio": _wait_async,
}
"""Loads by name: what is done, and the client."""


if __name__ == "__main__":
    main(LOADS, __doc__)
