"""One run: servers, faults, work, and the comparison at the end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import headrace
import headrace.aio
from tests.faults.sdk.faults import Faults
from tests.faults.sdk.record import DELIVERED, REFUSED, UNKNOWN, Record
from tests.faults.sdk.workload import (
    OPTIONS,
    STREAM,
    Ends,
    read_awaited,
    read_blocking,
    run_all,
    send_awaited,
    send_blocking,
)
from tests.sdk.proxy import Proxy
from tests.server_process import PASSWORD, USERNAME, ServerProcess

_PARTITIONS: Final = 3
_CATCH_UP_SECONDS: Final = 60
_MEMORY_MARGIN_BYTES: Final = 32 << 20
_SETTINGS: Final = {"SYSTEM_MEMORY_POOL_SIZE": "512 MiB", "SYSTEM_SHARDING_CPU_ALLOCATION": "1"}


class RunFailed(Exception):
    """Something was lost, repeated, out of order, or left over."""


def run(directory: Path, seed: int, seconds: float, say: Callable[[str], None]) -> None:
    """Work under faults for some time, and check the result.

    Raises:
        RunFailed: With each problem.
    """
    with ServerProcess(directory / "data", _SETTINGS) as server, Proxy(server.address, seed=seed) as proxy:
        _warm_up(server.address)
        threads, descriptors = threading.active_count(), _descriptors()
        records = {"blocking": Record(), "awaited": Record()}
        with headrace.connect(_url(server.address), options=OPTIONS) as direct:
            direct.create_stream(STREAM)
            for topic in records:
                direct.create_topic(STREAM, topic, partitions=_PARTITIONS)
            faults = Faults(server, proxy, seed)
            work = threading.Thread(target=_work, args=(proxy.address, records, ends := Ends(), seed), name="work")
            work.start()
            faults.start()
            memory = []
            for part in range(2):
                time.sleep(seconds / 2)
                memory.append(_resident_bytes())
                say(f"{part + 1}/2: {memory[-1] >> 20} MiB, {dict(faults.done)}")
            faults.stop()
            ends.sending.set()
            _catch_up(direct, records)
            ends.reading.set()
            work.join()
            for topic, record in records.items():
                record.compare({partition: _stored(direct, topic, partition) for partition in range(_PARTITIONS)})
                counts = record.counts()
                outcomes = f"{counts[DELIVERED]} delivered, {counts[UNKNOWN]} unknown, {counts[REFUSED]} refused"
                say(f"{topic}: {outcomes}, {record.repeated} read again")
                if counts[DELIVERED] < 10:
                    record.problem("hardly anything was delivered")
        problems = [f"{topic}: {problem}" for topic, record in records.items() for problem in record.problems]
        problems += _left_over(threads, descriptors, proxy)
        if memory[1] - memory[0] > _MEMORY_MARGIN_BYTES:
            problems.append(f"memory has grown from {memory[0] >> 20} to {memory[1] >> 20} MiB in half of the time")
    if problems:
        raise RunFailed("\n".join(problems))


def _url(address: str) -> str:
    return f"headrace://{USERNAME}:{PASSWORD}@{address}"


def _warm_up(address: str) -> None:
    """Start what lives as long as the process."""
    with headrace.connect(_url(address)) as client:
        client.ping()


def _work(address: str, records: dict[str, Record], ends: Ends, seed: int) -> None:
    blocking, awaited = records["blocking"], records["awaited"]
    with headrace.connect(_url(address), options=OPTIONS) as client:
        run_all(
            blocking,
            [
                ("producer", lambda: send_blocking(client, blocking, ends, "b")),
                ("member-1", lambda: read_blocking(client, blocking, ends, seed + 1)),
                ("member-2", lambda: read_blocking(client, blocking, ends, seed + 2)),
                ("loop", lambda: asyncio.run(_work_awaited(address, awaited, ends, seed))),
            ],
        )


async def _work_awaited(address: str, record: Record, ends: Ends, seed: int) -> None:
    async with headrace.aio.connect(_url(address), options=OPTIONS) as client:
        results = await asyncio.gather(
            send_awaited(client, record, ends, "a"),
            read_awaited(client, record, ends, seed + 3),
            read_awaited(client, record, ends, seed + 4),
            return_exceptions=True,
        )
    for result in results:
        if isinstance(result, BaseException):
            record.problem(f"{type(result).__name__}: {result}")
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if others:
        record.problem(f"{len(others)} tasks are left over: {others[0]!r}")


def _stored(client: headrace.Client, topic: str, partition: int) -> list[bytes]:
    found: list[bytes] = []
    while batch := list(client.read(STREAM, topic, partition=partition, start=len(found), count=10_000)):
        found += [message.payload for message in batch]
    return found


def _catch_up(client: headrace.Client, records: dict[str, Record]) -> None:
    """Wait until the groups have read everything that is stored."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    ends: dict[int, int] = {}
    for topic, record in records.items():
        while True:
            partitions = client.topic(STREAM, topic).partitions
            ends = {found.id: found.current_offset + 1 if found.messages_count else 0 for found in partitions}
            if record.counts()[0] == 0 and record.missing_reads(ends) == 0:
                break
            if time.monotonic() > deadline or record.problems:
                record.problem(f"{record.missing_reads(ends)} messages were not read, {record.counts()[0]} not settled")
                break
            time.sleep(0.05)


def _left_over(threads: int, descriptors: Mapping[str, str], proxy: Proxy) -> list[str]:
    deadline = time.monotonic() + 60
    while True:
        gc.collect()
        # The proxy has two descriptors and a thread for each connection that is still open.
        now = (len([found for found in threading.enumerate() if found.name != "proxy"]), proxy.connections)
        opened = _descriptors()
        open_now = len(opened) - len(descriptors)
        if now[0] <= threads and now[1] == 0 and open_now <= 0:
            return []
        if time.monotonic() > deadline:
            new = sorted(set(opened.items()) - set(descriptors.items()))
            return [f"left over: {now[0] - threads} threads, {now[1]} connections, {open_now} descriptors: {new}"]
        time.sleep(0.1)


def _descriptors() -> dict[str, str]:
    """Return what each open descriptor leads to."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        # The one that lists them is closed already.
        with suppress(OSError):
            found[path.name] = str(path.readlink())
    return found


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
