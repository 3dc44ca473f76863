"""Clients that work while their server is killed, and record every acknowledgement."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from headrace_core import Client, ConnectionLost
from tests.server_process import PASSWORD, USERNAME

STREAM = "work"
TOPIC = "t"
NAMES = "stream "
"""Name prefix of streams that are created and deleted."""
PARTITIONS_COUNT = 4

_PAUSE_SECONDS_MAX = 0.004
_PADDING_BYTES = (0, 0, 10, 300, 3000)


class Gate:
    """Gate that lets clients work between two kills."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_finished = False
        self._is_open = False
        self._working = 0
        self._changed = threading.Condition()

    def open(self) -> None:
        """Open the gate: the server is up."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def shut(self) -> None:
        """Close the gate before a kill; clients that lose their connection wait for the next opening."""
        with self._changed:
            self._is_open = False

    def finish(self) -> None:
        """End all work."""
        self.is_finished = True
        self.open()

    def enter(self) -> None:
        """Wait until the server is up and count the client as working, or return at the end of the work."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_open)
            self._working += 1

    def leave(self) -> None:
        """Leave after a lost connection."""
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    def wait_all_left(self) -> None:
        """Wait until every client has noticed that the server is down."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._working == 0, timeout=60), "clients wait for a dead server"


class Worker(threading.Thread, ABC):
    """A client that reconnects whenever its connection is lost."""

    def __init__(self, name: str, gate: Gate) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._gate = gate

    def run(self) -> None:
        """Work until the end; any error except a lost connection is a failure."""
        try:
            while not self._gate.is_finished:
                self._gate.enter()
                try:
                    self._work_until_lost()
                except ConnectionLost:
                    # The gate may still be open between the death of the server and its detection by the test.
                    time.sleep(0.002)
                finally:
                    self._gate.leave()
        except BaseException as failure:  # noqa: BLE001 - it is raised again by `join_all`
            self.failure = failure

    def _work_until_lost(self) -> None:
        client = Client.connect(self._gate.address, 30.0)
        try:
            client.login(USERNAME, PASSWORD)
            while not self._gate.is_finished:
                self.work(client)
        finally:
            client.close()

    @abstractmethod
    def work(self, client: Client) -> None:
        """One step."""


def join_all(workers: list[Worker]) -> None:
    """Wait for the end of all workers; raise the failure of any of them."""
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), f"{worker.name} does not end"
        if worker.failure is not None:
            raise worker.failure


class Producer(Worker):
    """Producer of numbered messages. A batch is sent once, whatever its outcome: duplicates come from the server."""

    def __init__(self, number: int, gate: Gate, *, seed: int, partition: int | None) -> None:
        """Describe a producer.

        Args:
            number: Number that its messages contain.
            gate: Gate that permits work.
            seed: Seed of sizes and pauses.
            partition: Target partition; None for balanced partitioning.
        """
        super().__init__(f"producer {number}", gate)
        self.number = number
        self.acknowledged: list[range] = []
        """Message numbers of each acknowledged batch."""
        self.unanswered: list[range] = []
        """Message numbers of each batch in flight at a kill."""
        self._random = random.Random(f"{seed} {number}")
        self._partition = partition
        self._next = 0

    def work(self, client: Client) -> None:
        """Send one batch."""
        count = self._random.choice((1, 1, 2, 10, 50))
        batch = range(self._next, self._next + count)
        self._next = batch.stop
        padding = bytes(self._random.choice(_PADDING_BYTES))
        payloads = [b"%d %d %b" % (self.number, message, padding) for message in batch]
        self.unanswered.append(batch)
        client.send(STREAM, TOPIC, payloads, partition=self._partition)
        self.acknowledged.append(self.unanswered.pop())
        time.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))


class Consumer(Worker):
    """Consumer that polls a partition by `next` and records messages and stored offsets."""

    def __init__(self, number: int, gate: Gate, *, seed: int, partition: int, auto_commit: bool) -> None:
        super().__init__(f"consumer {number}", gate)
        self.number = number
        self.partition = partition
        self.seen: dict[int, bytes] = {}
        """Start of each payload by offset. A message once read never changes (LOG-1, LOG-15)."""
        self.stored: int | None = None
        """Offset last acknowledged as stored."""
        self.may_be_stored: list[int] = []
        """Offsets that may have been stored instead: their response was lost."""
        self._random = random.Random(f"{seed} {number}")
        self.auto_commit = auto_commit

    def work(self, client: Client) -> None:
        """Poll once; the poll or a separate request stores the offset."""
        count = self._random.choice((1, 20, 200))
        in_doubt = bool(self.may_be_stored)
        if self.auto_commit:
            # The lost response may have stored any offset up to the end, unseen by the client.
            self.may_be_stored.append(-1)
        polled = client.poll(
            STREAM,
            TOPIC,
            self.partition,
            strategy="next",
            count=count,
            consumer=self.number,
            auto_commit=self.auto_commit,
        )
        for message in polled.messages:
            known = self.seen.setdefault(message.offset, identity(message.payload))
            assert known == identity(message.payload), f"offset {message.offset} was {known!r} before"
        offsets = [message.offset for message in polled.messages]
        if offsets:
            first = 0 if self.stored is None else self.stored + 1
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), "a gap within a poll"
            assert offsets[0] == first or in_doubt, f"next is {offsets[0]} after {self.stored}"
            last = offsets[-1]
            if not self.auto_commit:
                self.may_be_stored.append(last)
                client.store_offset(STREAM, TOPIC, self.partition, last, consumer=self.number)
            self.stored = last
        # An empty poll stores nothing and resolves nothing: the lost response may have been a success.
        if offsets or not in_doubt:
            self.may_be_stored.clear()
        time.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))


class Librarian(Worker):
    """Worker that creates and deletes streams and topics, and records which must exist."""

    def __init__(self, gate: Gate, *, seed: int) -> None:
        super().__init__("librarian", gate)
        self.existing: set[str] = set()
        self.unknown: set[str] = set()
        """Streams whose creation or deletion was in flight at a kill."""
        self._random = random.Random(f"{seed} librarian")
        self._next = 0

    def work(self, client: Client) -> None:
        """Create a stream with a topic, or delete one."""
        if len(self.existing) > 5 and self._random.random() < 0.5:
            name = self._random.choice(sorted(self.existing))
            self.existing.remove(name)
            self.unknown.add(name)
            client.delete_stream(name)
        else:
            name = f"{NAMES}{self._next}"
            self._next += 1
            self.unknown.add(name)
            client.create_stream(name)
            client.create_topic(name, TOPIC, 2)
            client.send(name, TOPIC, [name.encode()], partition=1)
            self.existing.add(name)
        self.unknown.remove(name)
        time.sleep(self._random.uniform(0, 10 * _PAUSE_SECONDS_MAX))


def identity(payload: bytes) -> bytes:
    """Return producer and number, without the padding."""
    return payload[: payload.index(b" ", payload.index(b" ") + 1)]


@dataclass(slots=True)
class Workload:
    """All clients of a run."""

    gate: Gate
    seed: int
    producers: list[Producer] = field(init=False)
    consumers: list[Consumer] = field(init=False)
    librarian: Librarian = field(init=False)

    def __post_init__(self) -> None:
        # Two producers share a partition, so that their batches meet in a group commit; one is balanced over all
        # partitions.
        partitions = (0, 0, 1, 2, 3, None)
        self.producers = [
            Producer(number, self.gate, seed=self.seed, partition=partition)
            for number, partition in enumerate(partitions)
        ]
        self.consumers = [
            Consumer(
                number, self.gate, seed=self.seed, partition=number % PARTITIONS_COUNT, auto_commit=number % 2 == 0
            )
            for number in range(1, PARTITIONS_COUNT + 1)
        ]
        self.librarian = Librarian(self.gate, seed=self.seed)

    @property
    def workers(self) -> list[Worker]:
        """Return all workers."""
        return [*self.producers, *self.consumers, self.librarian]

    def start(self) -> None:
        """Create the topic and start all threads; they wait for the gate."""
        client = Client.connect(self.gate.address)
        client.login(USERNAME, PASSWORD)
        client.create_stream(STREAM)
        client.create_topic(STREAM, TOPIC, PARTITIONS_COUNT)
        client.close()
        for worker in self.workers:
            worker.start()

    def check_alive(self) -> None:
        """Raise the failure of any client at once."""
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure
