"""Measurements of a process with one Python client under load, and their report.

CPU is that of the whole process, with the native threads of the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import struct
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

BATCH = 1000
"""Messages of a batch, for clients whose batches are made by the caller."""
_LATENCIES = 2000
_WAKES = 300
_SETTLE_SECONDS = 1.0
_PAUSE_SECONDS = 0.005
"""Pause between two messages, so that each finds its consumer waiting."""
_SENT_AT = struct.Struct("<q")


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


@dataclass(frozen=True, slots=True)
class Waiting:
    """Costs of a waiting consumer, and the time from sending a message to its arrival at that consumer."""

    idle_cpu_millis_per_second: float
    p50_millis: float
    p99_millis: float


class Clock:
    """Time and CPU time since its construction."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def result(self, messages: int) -> Result:
        """Return the result of a load that ends now."""
        return Result(messages, time.perf_counter() - self._wall, time.process_time() - self._cpu)


def rounds() -> Iterator[None]:
    """Iterate as often as a message is sent to measure latency."""
    for _ in range(_LATENCIES):
        yield


def latency(seconds: list[float]) -> Latency:
    """Return the quantiles."""
    return Latency(*_quantiles(seconds))


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    return statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=100)[98] * 1000


def wait_blocking(
    receive: Callable[[], bytes], sender: AbstractContextManager[Callable[[bytes], object]], idle_seconds: int
) -> Waiting:
    """Let a thread wait for messages, first without any, then for one after the other.

    Args:
        receive: Waits for the next message and returns its payload.
        sender: Opened after the time without messages; its value sends a message.
        idle_seconds: Time without messages.
    """
    taken: list[float] = []
    arrived = threading.Event()

    def read() -> None:
        for _ in range(_WAKES):
            taken.append(_seconds_since(receive()))
            arrived.set()

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(_SETTLE_SECONDS)
    begin = time.process_time()
    time.sleep(idle_seconds)
    idle = time.process_time() - begin
    with sender as send:
        for _ in range(_WAKES):
            time.sleep(_PAUSE_SECONDS)
            send(_stamp())
            arrived.wait()
            arrived.clear()
    reader.join()
    return Waiting(idle * 1000 / idle_seconds, *_quantiles(taken))


async def wait_awaited(
    receive: Callable[[], Awaitable[bytes]],
    sender: AbstractAsyncContextManager[Callable[[bytes], Awaitable[object]]],
    idle_seconds: int,
) -> Waiting:
    """Let a task wait for messages, as `wait_blocking`."""
    taken: list[float] = []
    arrived = asyncio.Event()

    async def read() -> None:
        for _ in range(_WAKES):
            taken.append(_seconds_since(await receive()))
            arrived.set()

    reader = asyncio.create_task(read())
    await asyncio.sleep(_SETTLE_SECONDS)
    begin = time.process_time()
    await asyncio.sleep(idle_seconds)
    idle = time.process_time() - begin
    async with sender as send:
        for _ in range(_WAKES):
            await asyncio.sleep(_PAUSE_SECONDS)
            await send(_stamp())
            await arrived.wait()
            arrived.clear()
    await reader
    return Waiting(idle * 1000 / idle_seconds, *_quantiles(taken))


def _stamp() -> bytes:
    return _SENT_AT.pack(time.perf_counter_ns())


def _seconds_since(payload: bytes) -> float:
    return (time.perf_counter_ns() - _SENT_AT.unpack(payload)[0]) / 1e9


Load = Callable[[str, bytes, int], Any]
"""Receives an address, a payload, and the number of messages; of waiting loads the seconds without messages."""


def main(loads: dict[str, Load], description: str | None) -> None:
    """Run the load that the command line names, and print its result as JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("load", choices=loads)
    parser.add_argument("address")
    parser.add_argument("size_bytes", type=int)
    parser.add_argument("count", type=int)
    chosen = parser.parse_args()
    outcome = loads[chosen.load](chosen.address, b"x" * chosen.size_bytes, chosen.count)
    result = asyncio.run(outcome) if isinstance(outcome, Coroutine) else outcome
    sys.stdout.write(json.dumps(asdict(result)) + "\n")
    sys.stdout.flush()
    # Threads of some clients still run, and abort a process that ends in order.
    os._exit(0)
