"""Waits: cancelled, interrupted, ended from elsewhere, by many threads, and without use of the processor."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headrace
import headrace.aio
from tests.conftest import TWO_SHARDS
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess


@pytest.fixture
def blocking(url: str, stream: str) -> Iterator[headrace.Client]:
    with headrace.connect(url) as client:
        client.create_stream(stream)
        client.create_topic(stream, "t", partitions=2)
        yield client
        client.delete_stream(stream)


@pytest.fixture
async def awaited(url: str, stream: str) -> AsyncIterator[headrace.aio.Client]:
    async with headrace.aio.connect(url) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t", partitions=2)
        yield client
        await client.delete_stream(stream)


async def cancelled(awaitable: Any) -> None:
    """Cancel a wait after it has begun, and most probably before it ends."""
    task = asyncio.ensure_future(awaitable)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


async def test_every_wait_can_be_cancelled_and_nothing_is_lost(awaited: headrace.aio.Client, stream: str) -> None:
    for call in (awaited.ping, awaited.stats, lambda: awaited.topic(stream, "t")):
        await cancelled(call())
    async with awaited.producer(stream, "t", linger=600) as producer:
        await cancelled(_as_coroutine(await producer.send(b"0", partition=0)))
        await cancelled(_as_coroutine(await producer.send_many([b"1", b"2"], partition=0)))
        await cancelled(producer.flush())
        await producer.flush()
        await producer.send(b"3", partition=0)
        await cancelled(producer.close())
    async with awaited.consumer(stream, "t", group="g") as consumer:
        # The first read reacts to the assignment.
        await cancelled(consumer.poll())
        found: list[bytes] = []
        while len(found) < 4:
            batch = await consumer.poll()
            assert batch is not None
            found += batch.payloads()
            await cancelled(consumer.commit())
        await cancelled(consumer.poll())
        await cancelled(anext(aiter(consumer)))
        await cancelled(consumer.seek(0, 0))
        await cancelled(consumer.position(1))
        await consumer.commit()
        assert found == [b"0", b"1", b"2", b"3"]
        await consumer.seek(0, 0)
        batch = await consumer.poll(timeout=60)
        assert batch is not None
        assert batch.payloads() == found
        await consumer.commit()
        await cancelled(consumer.close())
    stored = await awaited.offset(stream, "t", 0, group="g")
    assert stored is not None
    assert stored.stored_offset == 3


async def test_a_cancelled_callback_is_called_again(awaited: headrace.aio.Client, stream: str) -> None:
    calls: list[list[int]] = []
    may_end = asyncio.Event()

    async def on_assigned(partitions: Any) -> None:
        calls.append(sorted(partitions))
        await may_end.wait()

    async with awaited.consumer(stream, "t", on_assigned=on_assigned) as consumer:
        polling = asyncio.ensure_future(consumer.poll())
        while not calls:
            await asyncio.sleep(0.01)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        may_end.set()
        assert await consumer.poll(timeout=0.2) is None
    assert calls == [[0, 1], [0, 1]]


async def test_a_connection_that_is_being_made_can_be_given_up(url: str) -> None:
    # Other tests of this process may share a server of their own.
    before = set(threading.enumerate())
    await cancelled(_as_coroutine(headrace.aio.connect(url)))
    await cancelled(_as_coroutine(headrace.aio.connect("headrace+embedded://")))
    assert not any(thread.name == "headrace-embedded" for thread in set(threading.enumerate()) - before)
    async with headrace.aio.connect(url) as client:
        await client.ping()


def test_many_threads_share_a_producer_and_a_client(blocking: headrace.Client, stream: str) -> None:
    threads, each = 16, 200
    with blocking.producer(stream, "t", batch_messages=50, buffer_bytes=20_000) as producer:

        def work(number: int) -> list[headrace.Delivered]:
            sent = [producer.send(b"%d:%d" % (number, index), key=b"%d" % number) for index in range(each)]
            if number % 4 == 0:
                producer.flush(timeout=60)
                blocking.ping()
            return [delivery.result(60) for delivery in sent]

        with ThreadPoolExecutor(threads) as pool:
            places = list(pool.map(work, range(threads)))
    assert len({(place.partition_id, place.offset) for found in places for place in found}) == threads * each
    for found in places:
        offsets = [place.offset for place in found]
        assert offsets == sorted(offsets, key=int)  # type: ignore[arg-type] # the server reports offsets
        assert len({place.partition_id for place in found}) == 1


def test_a_flush_ends_while_other_threads_send(blocking: headrace.Client, stream: str) -> None:
    has_ended = threading.Event()
    # A flush waits for what is in the buffer: on a busy machine, that would be much.
    with blocking.producer(stream, "t", linger=0, batch_messages=10, buffer_bytes=100_000) as producer:

        def send() -> None:
            while not has_ended.is_set():
                producer.send(b"x")

        sender = threading.Thread(target=send)
        sender.start()
        try:
            for _ in range(3):
                producer.flush(timeout=60)
        finally:
            has_ended.set()
            sender.join()


def begin(timer: threading.Timer, wait: Callable[[], object]) -> None:
    """Start a timer and wait: on a busy machine, it may be over before the wait has begun."""
    timer.start()
    wait()


def test_an_interrupt_ends_a_wait(blocking: headrace.Client, stream: str) -> None:
    """Ctrl-C reaches every blocking call within a moment."""
    with blocking.producer(stream, "t", linger=600) as producer, blocking.consumer(stream, "t") as consumer:
        delivery = producer.send(b"x")
        for wait in (lambda: delivery.result(60), lambda: consumer.poll(60), lambda: next(iter(consumer))):
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                begin(timer, wait)
            assert time.monotonic() - began < 50
            timer.join()
        producer.flush(timeout=60)
        batch = consumer.poll(timeout=60)
        assert batch is not None
        assert batch.payloads() == [b"x"]


CPU_SECONDS_MAX = 0.02
"""Maximum CPU time of a wait of half a second: the least of several, as others may have had a garbage collection."""


@pytest.mark.alone
def test_waiting_costs_no_processor_time(blocking: headrace.Client, stream: str) -> None:
    consumers = [blocking.consumer(stream, "t", **arguments) for arguments in ({"group": "g"}, {"name": "n"})]
    with blocking.producer(stream, "t"):
        for consumer in consumers:
            assert consumer.poll(timeout=0.5) is None
        for consumer in consumers:
            spent = []
            for _ in range(4):
                before = time.process_time()
                assert consumer.poll(timeout=0.5) is None
                spent.append(time.process_time() - before)
            assert min(spent) < CPU_SECONDS_MAX, spent
            consumer.close()


@pytest.mark.alone
async def test_awaiting_costs_no_processor_time(awaited: headrace.aio.Client, stream: str) -> None:
    async with awaited.producer(stream, "t"), awaited.consumer(stream, "t", group="g") as consumer:
        assert await consumer.poll(timeout=0.5) is None
        spent = []
        for _ in range(4):
            before = time.process_time()
            assert await consumer.poll(timeout=0.5) is None
            spent.append(time.process_time() - before)
        assert min(spent) < CPU_SECONDS_MAX, spent


def test_closing_ends_the_waits_of_other_threads(blocking: headrace.Client, stream: str) -> None:
    consumer = blocking.consumer(stream, "t", group="g")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(consumer.poll)
        while not consumer.assignment:
            time.sleep(0.01)
        consumer.close()
        with pytest.raises(headrace.ClientClosed):
            waiting.result(60)
    producer = blocking.producer(stream, "t", linger=600)
    delivery = producer.send(b"x")
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(delivery.result), pool.submit(producer.flush)]
        producer.close()
        assert results[0].result(60).partition_id in {0, 1}
        assert results[1].result(60) is None


async def test_closing_ends_the_waits_of_other_tasks(awaited: headrace.aio.Client, stream: str) -> None:
    consumer = awaited.consumer(stream, "t", group="g")
    waiting = asyncio.ensure_future(consumer.poll())
    async with asyncio.timeout(60):
        while not consumer.assignment:
            await asyncio.sleep(0.01)
        await consumer.close()
        with pytest.raises(headrace.ClientClosed):
            await waiting


def _fill(producer: headrace.Producer) -> None:
    for _ in range(100):
        producer.send(b"x" * 1000, timeout=0)


def test_a_full_buffer_is_refused_or_waited_for(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", TWO_SHARDS) as server, headrace.connect(url_of(server.address)) as client:
        client.create_stream("s")
        client.create_topic("s", "t")
        with client.producer("s", "t", buffer_bytes=50_000, linger=0) as producer:
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                with pytest.raises(headrace.BufferFull, match="bytes wait to be delivered") as full:
                    _fill(producer)
                assert full.value.retryable
                assert 45_000 <= producer.counters.buffered_bytes <= 50_000
                began = time.monotonic()
                with pytest.raises(headrace.BufferFull):
                    producer.send(b"x" * 1000, timeout=0.2)
                with pytest.raises(headrace.BufferFull):
                    producer.send_many([b"x" * 1000] * 10, timeout=0.2)
                assert 0.4 <= time.monotonic() - began < 60
                with pytest.raises(headrace.DeadlineExceeded):
                    producer.flush(timeout=0.1)
                with ThreadPoolExecutor(1) as pool:
                    waiting = pool.submit(producer.send, b"x" * 1000)
                    with pytest.raises(TimeoutError):
                        waiting.result(0.2)
                    os.kill(server.process.pid, signal.SIGCONT)
                    assert waiting.result(30).result(30).offset is not None
            finally:
                os.kill(server.process.pid, signal.SIGCONT)


def test_polling_in_vain_takes_no_memory(blocking: headrace.Client, stream: str) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with blocking.consumer(stream, "t") as consumer:
        for _ in range(2000):
            consumer.poll(timeout=0)
        gc.collect()
        before = resident()
        for _ in range(50_000):
            consumer.poll(timeout=0)
        gc.collect()
        assert resident() - before < 2 << 20


def test_loops_that_end_leave_nothing_open(url: str) -> None:
    async def once() -> None:
        async with headrace.aio.connect(url) as client:
            await client.ping()

    asyncio.run(once())
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    for _ in range(10):
        asyncio.run(once())
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before:  # noqa: PTH208 - as above
        assert time.monotonic() < deadline, "descriptors stay open"
        gc.collect()
