"""Producers and members of a consumer group, of both flavours, that go on whatever happens."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any, Final

import headrace
import headrace.aio
from tests.faults.sdk.record import DELIVERED, REFUSED, UNKNOWN, Record

OPTIONS: Final = headrace.ClientOptions(
    connect_timeout=2, response_timeout=2, keepalive=0.5, request_timeout=60, connect_attempts=1000
)
STREAM: Final = "faults"
PRODUCER: Final[dict[str, Any]] = {"batch_messages": 20, "linger": 0.002, "in_flight": 2, "buffer_bytes": 100_000}
CONSUMER: Final[dict[str, Any]] = {"group": "g", "heartbeat": 0.2, "commit_interval": 0.1, "batch_messages": 50}
_BURST: Final = 20
_PAUSE_SECONDS: Final = 0.05


class Ends:
    """Signals to the parts of a run: stop sending, and later stop reading."""

    def __init__(self) -> None:
        self.sending = threading.Event()
        self.reading = threading.Event()


class Tenure:
    """Order of what one consumer reads of each partition while it has it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next: dict[int, int] = {}

    def begin(self, partitions: Any) -> None:
        """Forget what was read before, of partitions that have come or gone."""
        for partition in partitions:
            self._next.pop(partition, None)

    def take(self, batch: headrace.Batch) -> None:
        """Note a batch."""
        expected = self._next.get(batch.partition_id, batch.first_offset)
        if batch.first_offset != expected:
            self._record.problem(f"partition {batch.partition_id}: {batch.first_offset} came in place of {expected}")
        self._next[batch.partition_id] = batch.next_offset
        self._record.read(batch.partition_id, batch.first_offset, batch.next_offset)

    def callbacks(self) -> dict[str, Callable[[Any], None]]:
        """Return the callbacks of a consumer."""
        return {"on_assigned": self.begin, "on_revoked": self.begin, "on_lost": self.begin}


def send_blocking(client: headrace.Client, record: Record, ends: Ends, name: str) -> None:
    """Send until the end; two threads with keys of their own share the producer."""
    with client.producer(STREAM, "blocking", **PRODUCER) as producer:

        def work(key: str) -> None:
            number = 0
            waiting: list[tuple[int, headrace.Delivery]] = []
            while not ends.sending.wait(_PAUSE_SECONDS):
                for _ in range(_BURST):
                    record.sent(key, number)
                    waiting.append((number, producer.send(f"{key}:{number}".encode(), key=key)))
                    number += 1
                while waiting and waiting[0][1].done():
                    settle(*waiting.pop(0))
            for sent in waiting:
                settle(*sent)

        def settle(number: int, delivery: headrace.Delivery) -> None:
            key = threading.current_thread().name
            try:
                delivery.result()
                record.ended(key, number, DELIVERED)
            except headrace.OutcomeUnknown:
                record.ended(key, number, UNKNOWN)
            except headrace.NotDelivered:
                # Refused by a server that stops, while the outcome of the batch after it is not known.
                record.ended(key, number, REFUSED)

        run_all(record, [(f"{name}-{index}", lambda index=index: work(f"{name}-{index}")) for index in range(2)])


async def send_awaited(client: headrace.aio.Client, record: Record, ends: Ends, name: str) -> None:
    """Send until the end; two tasks with keys of their own share the producer."""
    async with client.producer(STREAM, "awaited", **PRODUCER) as producer:

        async def settle(key: str, number: int, delivery: headrace.aio.Delivery) -> None:
            try:
                await delivery
                record.ended(key, number, DELIVERED)
            except headrace.OutcomeUnknown:
                record.ended(key, number, UNKNOWN)
            except headrace.NotDelivered:
                # Refused by a server that stops, while the outcome of the batch after it is not known.
                record.ended(key, number, REFUSED)

        async def work(key: str) -> None:
            number = 0
            async with asyncio.TaskGroup() as settling:
                while not ends.sending.is_set():
                    for _ in range(_BURST):
                        record.sent(key, number)
                        delivery = await producer.send(f"{key}:{number}".encode(), key=key)
                        settling.create_task(settle(key, number, delivery))
                        number += 1
                    await asyncio.sleep(_PAUSE_SECONDS)

        await asyncio.gather(work(f"{name}-0"), work(f"{name}-1"))


def read_blocking(client: headrace.Client, record: Record, ends: Ends, seed: int) -> None:
    """Read until the end, as one member after the other."""
    choice = random.Random(seed)
    while not ends.reading.is_set():
        tenure = Tenure(record)
        with client.consumer(STREAM, "blocking", **CONSUMER, **tenure.callbacks()) as consumer:
            for _ in range(choice.randrange(5, 200)):
                batch = consumer.poll(timeout=0.1)
                if batch is not None:
                    tenure.take(batch)
                if ends.reading.is_set():
                    break


async def read_awaited(client: headrace.aio.Client, record: Record, ends: Ends, seed: int) -> None:
    """Read until the end, as one member after the other; some reads are cancelled."""
    choice = random.Random(seed)
    while not ends.reading.is_set():
        tenure = Tenure(record)
        async with client.consumer(STREAM, "awaited", **CONSUMER, **tenure.callbacks()) as consumer:
            for _ in range(choice.randrange(5, 200)):
                try:
                    async with asyncio.timeout(choice.choice((0.001, 0.1, 1))):
                        batch = await consumer.poll(timeout=0.1)
                except TimeoutError:
                    continue
                if batch is not None:
                    tenure.take(batch)
                if ends.reading.is_set():
                    break


def run_all(record: Record, works: list[tuple[str, Callable[[], None]]]) -> None:
    """Run each on a thread of its name, and note what fails."""

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the run reports it
            record.problem(f"{threading.current_thread().name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=(work,), name=name) for name, work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
