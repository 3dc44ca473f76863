"""Consumers of one group, each a process with the official client, that come, leave and crash (CTL-8)."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compatibility import frames
from tests.compatibility.group_member import Group
from tests.compatibility.raw import RawConnection, eventually
from tests.server_process import ServerProcess

PARTITIONS = 8
SCENES = 12
"""Arrivals, departures and crashes of one run."""
ALIVE_MAX = 5


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message in somebody's hands."""

    at_ns: int
    partition: int
    offset: int
    consumer: int


class Consumer:
    """One process."""

    def __init__(self, number: int, address: str, stream: str, folder: Path) -> None:
        self.number = number
        self.record = folder / f"consumer-{number}.txt"
        self.told_to_end_at_ns: int | None = None
        command = [sys.executable, "-m", "tests.compatibility.group_consumer", address, stream, str(self.record)]
        self._process = subprocess.Popen(command, process_group=0)

    def end(self, *, kill: bool) -> None:
        """Ask it to stop, or let it crash."""
        if self.told_to_end_at_ns is not None:
            return
        self.told_to_end_at_ns = time.monotonic_ns()
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        status = self._process.wait(30)
        # It may not have come to the point at which it minds the signal.
        assert kill or status in (0, -signal.SIGTERM), f"consumer {self.number} ended with status {status}"

    def receipts(self) -> list[Receipt]:
        """What it got, in order."""
        if not self.record.exists():
            return []
        lines = self.record.read_text(encoding="ascii").splitlines()
        return [Receipt(*(int(field) for field in line.split()), consumer=self.number) for line in lines]


class Producer:
    """Sends to all partitions on a thread of its own until it is told to stop."""

    def __init__(self, group: Group, seed: int) -> None:
        self.counts = dict.fromkeys(range(PARTITIONS), 0)
        self._random = random.Random(seed)
        self._group = group
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            partition = self._random.randrange(PARTITIONS)
            payloads = [b"m"] * self._random.randint(1, 10)
            self._group.send(partition, *payloads)
            self.counts[partition] += len(payloads)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_missed_and_nothing_is_shared(
    server: ServerProcess, stack: ExitStack, tmp_path: Path, seed: int
) -> None:
    """Every message is received, none is skipped on the way, and two members receive the same one only when the first
    of them had gone before the second got it.
    """
    choice = random.Random(seed)
    group = Group(stack.enter_context(RawConnection.as_root(server.address)), "s", partitions=PARTITIONS)
    watcher = stack.enter_context(RawConnection.as_root(server.address))
    producer = Producer(group, seed)
    stack.callback(producer.stop)
    consumers: list[Consumer] = []

    def arrive() -> None:
        consumer = Consumer(len(consumers), server.address, group.stream, tmp_path)
        stack.callback(consumer.end, kill=True)
        consumers.append(consumer)

    def alive() -> list[Consumer]:
        return [consumer for consumer in consumers if consumer.told_to_end_at_ns is None]

    arrive()
    for _ in range(SCENES):
        if len(alive()) < 2 or (len(alive()) < ALIVE_MAX and choice.random() < 0.6):
            arrive()
        else:
            choice.choice(alive()).end(kill=choice.random() < 0.6)
        time.sleep(choice.uniform(0.2, 1.2))
    producer.stop()

    def is_drained() -> bool:
        who = frames.consumer("g", group=True)
        return all(
            count == 0 or watcher.stored_offset("s", "t", partition, who=who) == count - 1
            for partition, count in producer.counts.items()
        )

    eventually("everything is consumed", is_drained, timeout_seconds=60)
    for consumer in alive():
        consumer.end(kill=False)
    receipts = sorted(
        (receipt for consumer in consumers for receipt in consumer.receipts()), key=lambda receipt: receipt.at_ns
    )
    assert sum(1 for consumer in consumers if consumer.receipts()) > 3, "several had their share"
    told_to_end_at = {consumer.number: consumer.told_to_end_at_ns or 0 for consumer in consumers}
    check_receipts(receipts, producer.counts, told_to_end_at)


def check_receipts(receipts: list[Receipt], counts: dict[int, int], told_to_end_at_ns: dict[int, int]) -> None:
    """Check what all consumers got, in the order in which they got it.

    When a connection is closed the server knows at once, those who wait for the end of its process a little later: so
    whoever got a message before somebody else had been told to end by then, and got nothing more afterwards.
    """
    final = {receipt.consumer: receipt for receipt in receipts}
    last: dict[tuple[int, int], Receipt] = {}
    next_offset = dict.fromkeys(counts, 0)
    for receipt in receipts:
        place = (receipt.partition, receipt.offset)
        assert receipt.offset <= next_offset[receipt.partition], f"{place} came before those in front of it"
        next_offset[receipt.partition] = max(next_offset[receipt.partition], receipt.offset + 1)
        earlier = last.get(place)
        if earlier is not None and earlier.consumer != receipt.consumer:
            was_gone = max(told_to_end_at_ns[earlier.consumer], final[earlier.consumer].at_ns) < receipt.at_ns
            assert was_gone, f"{earlier} and {receipt}, both members"
        last[place] = receipt
    assert next_offset == counts, "the last ones are missing"
