"""Clients that work while containers are killed, and record acknowledgements and errors."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace_core import Client, ConnectionLost, CoreError, ServerError
from tests.faults.audit import check_promises

TOPIC = "t"
PARTITIONS_COUNT = 8

_PAUSE_SECONDS = 0.02
_CONNECT_PAUSE_SECONDS = 0.05
_MESSAGES_PER_POLL = 5000


@dataclass(frozen=True, slots=True)
class Entrance:
    """Address and credentials of clients."""

    address: str
    username: str
    password: str

    def open(self) -> Client:
        """A client that is logged in."""
        client = Client.connect(self.address, 30.0)
        client.login(self.username, self.password)
        return client


class Sender(threading.Thread):
    """Sends numbered messages to one partition. A batch is sent once, whatever becomes of it."""

    def __init__(self, entrance: Entrance, stream: str, partition: int, *, seed: int) -> None:
        super().__init__(name=f"sender {partition}", daemon=True)
        self.number = partition
        self.acknowledged: list[range] = []
        """Numbers of the messages of each batch that was answered."""
        self.unanswered: list[range] = []
        """The same of each batch whose fate is not known."""
        self.lost_connections = 0
        self.refusals = 0
        """Number of batches refused because the partition was unreachable."""
        self.failure: BaseException | None = None
        self.longest_seconds = 0.0
        """Longest latency of an acknowledged batch in seconds; can be reset."""
        self.may_go_on = True
        self._entrance = entrance
        self._stream = stream
        self._random = random.Random(f"{seed} {partition}")
        self._next = 0

    def run(self) -> None:
        """Send until stopped; reconnect after every lost connection."""
        try:
            while self.may_go_on:
                try:
                    client = self._entrance.open()
                except CoreError:
                    time.sleep(_CONNECT_PAUSE_SECONDS)
                    continue
                try:
                    while self.may_go_on:
                        self._send(client)
                        time.sleep(self._random.uniform(0, _PAUSE_SECONDS))
                except ConnectionLost:
                    self.lost_connections += 1
                finally:
                    client.close()
        except BaseException as failure:  # noqa: BLE001 - it is raised again by `check`
            self.failure = failure

    def _send(self, client: Client) -> None:
        batch = range(self._next, self._next + self._random.choice((1, 2, 10, 50)))
        self._next = batch.stop
        self.unanswered.append(batch)
        began = time.monotonic()
        try:
            client.send(
                self._stream, TOPIC, [b"%d %d " % (self.number, message) for message in batch], partition=self.number
            )
        except ServerError as error:
            if error.name != "PartitionUnavailable":
                raise
            self.refusals += 1
            return
        self.acknowledged.append(self.unanswered.pop())
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


class Load:
    """A sender for each partition of a topic of its own."""

    def __init__(self, entrance: Entrance, stream: str, *, seed: int) -> None:
        self.entrance = entrance
        self.stream = stream
        client = entrance.open()
        client.create_stream(stream)
        client.create_topic(stream, TOPIC, PARTITIONS_COUNT)
        client.close()
        self.senders = [Sender(entrance, stream, partition, seed=seed) for partition in range(PARTITIONS_COUNT)]

    @contextmanager
    def running(self) -> Iterator[Load]:
        """Send for the duration of a ``with`` block; all senders must make progress at its beginning and end."""
        for sender in self.senders:
            sender.start()
        try:
            self.wait_progress()
            yield self
            self.wait_progress()
        finally:
            for sender in self.senders:
                sender.may_go_on = False
            for sender in self.senders:
                sender.join(60)
        for sender in self.senders:
            assert not sender.is_alive(), f"{sender.name} does not end"

    def wait_progress(self, partitions: Sequence[int] | None = None, seconds: float = 60.0) -> float:
        """Wait until each of these partitions, or all, took another two batches; returns how long it took."""
        began = time.monotonic()
        chosen = [sender for sender in self.senders if partitions is None or sender.number in partitions]
        goals = [len(sender.acknowledged) + 2 for sender in chosen]
        while waiting := [s for s, goal in zip(chosen, goals, strict=True) if len(s.acknowledged) < goal]:
            for sender in self.senders:
                if sender.failure is not None:
                    raise sender.failure
            assert time.monotonic() - began < seconds, f"after {seconds} s nothing new from {[s.name for s in waiting]}"
            time.sleep(0.02)
        return time.monotonic() - began

    def notices(self) -> list[int]:
        """Number of lost connections and refusals of each sender."""
        return [sender.lost_connections + sender.refusals for sender in self.senders]

    def forget_slowness(self) -> None:
        """Measure anew."""
        for sender in self.senders:
            sender.longest_seconds = 0.0

    def check(self) -> int:
        """Everything acknowledged is there once and in order; returns how many messages there are."""
        client = self.entrance.open()
        logs = [self._read(client, partition) for partition in range(PARTITIONS_COUNT)]
        client.close()
        check_promises(logs, self.senders)
        return sum(map(len, logs))

    def _read(self, client: Client, partition: int) -> list[bytes]:
        found: list[bytes] = []
        while messages := client.poll(
            self.stream, TOPIC, partition, strategy="offset", value=len(found), count=_MESSAGES_PER_POLL
        ).messages:
            assert [message.offset for message in messages] == list(range(len(found), len(found) + len(messages)))
            found += [message.payload.rstrip() for message in messages]
        return found
