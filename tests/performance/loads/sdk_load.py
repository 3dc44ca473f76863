"""One client of Python under load, in a process of its own: `python -m tests.performance.loads.sdk_load`.

Prints a JSON object: seconds and CPU seconds of the client for all messages, and of latencies the median and the 99th
percentile in milliseconds. CPU is that of the whole process from the first message to the last, with native threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import cast

from apache_iggy import IggyClient, PollingStrategy, SendMessage

import headrace
import headrace.aio
import headrace.tables
from tests.performance.loads.load import STREAM, TOPIC
from tests.server_process import PASSWORD, USERNAME

BATCH = 1000
"""Messages of a batch, for clients whose batches are made by the caller."""
_LATENCIES = 2000


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a load."""

    messages: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Time from sending a message to its acknowledgement, one at a time."""

    p50_millis: float
    p99_millis: float


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def result(self, messages: int) -> Result:
        return Result(messages, time.perf_counter() - self._wall, time.process_time() - self._cpu)


def _latency(seconds: list[float]) -> Latency:
    cut = statistics.quantiles(seconds, n=100)
    return Latency(statistics.median(seconds) * 1000, cut[98] * 1000)


def _produce_blocking(address: str, payload: bytes, count: int) -> Result:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = _Clock()
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
        clock = _Clock()
        for _ in range(count // BATCH):
            producer.send_many(batch, partition=0)
        producer.flush()
        return clock.result(count)


async def _produce_async(address: str, payload: bytes, count: int) -> Result:
    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC) as producer,
    ):
        clock = _Clock()
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
    clock = _Clock()
    for _ in range(count // BATCH):
        await client.send_messages(STREAM, TOPIC, 0, [SendMessage(text) for _ in range(BATCH)])
    return clock.result(count)


def _consume_blocking(address: str, _payload: bytes, count: int) -> Result:
    with (
        headrace.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.consumer(STREAM, TOPIC, partitions=[0]) as consumer,
    ):
        clock = _Clock()
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
        clock = _Clock()
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
        clock = _Clock()
        read = size = 0
        async for message in consumer:
            size += len(message.payload)
            read += 1
            if read == count:
                break
        return clock.result(read)


async def _consume_official(address: str, _payload: bytes, count: int) -> Result:
    client = await _official(address)
    clock = _Clock()
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
        for _ in range(_LATENCIES):
            begin = time.perf_counter()
            producer.send(payload, partition=0).result()
            seconds.append(time.perf_counter() - begin)
        return _latency(seconds)


async def _latency_async(address: str, payload: bytes, _count: int) -> Latency:
    async with (
        headrace.aio.connect(address, username=USERNAME, password=PASSWORD) as client,
        client.producer(STREAM, TOPIC, linger=0) as producer,
    ):
        seconds = []
        for _ in range(_LATENCIES):
            begin = time.perf_counter()
            await (await producer.send(payload, partition=0))
            seconds.append(time.perf_counter() - begin)
        return _latency(seconds)


async def _latency_official(address: str, payload: bytes, _count: int) -> Latency:
    client = await _official(address)
    text = payload.decode()
    seconds = []
    for _ in range(_LATENCIES):
        begin = time.perf_counter()
        await client.send_messages(STREAM, TOPIC, 0, [SendMessage(text)])
        seconds.append(time.perf_counter() - begin)
    return _latency(seconds)


LOADS: dict[str, Callable[[str, bytes, int], object]] = {
    "produce headrace": _produce_blocking,
    "produce headrace, send_many": _produce_many,
    "produce headrace.aio": _produce_async,
    "produce apache-iggy": _produce_official,
    "consume headrace": _consume_blocking,
    "consume headrace, Arrow": _consume_batches,
    "consume headrace.aio": _consume_async,
    "consume apache-iggy": _consume_official,
    "latency headrace": _latency_blocking,
    "latency headrace.aio": _latency_async,
    "latency apache-iggy": _latency_official,
}
"""Loads by name: what is done, and the client."""


def main() -> None:
    """Run a load and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("address")
    parser.add_argument("size_bytes", type=int)
    parser.add_argument("count", type=int)
    chosen = parser.parse_args()
    outcome = LOADS[chosen.load](chosen.address, b"x" * chosen.size_bytes, chosen.count)
    result = asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome
    sys.stdout.write(json.dumps(asdict(cast("Result | Latency", result))) + "\n")
    sys.stdout.flush()
    # Threads of the official client may still run, and abort a process that ends in order.
    os._exit(0)


if __name__ == "__main__":
    main()
