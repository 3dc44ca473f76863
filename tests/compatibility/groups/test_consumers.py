"""Consumer groups whose consumers, each a process with the official client, join, leave and crash (CTL-8)."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.groups.processes import Consumer, Producer, Receipt, assignment, check_receipts, ends
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.server_process import ServerProcess

ALIVE_MAX = 5
"""Maximum number of consumers of one group."""
DOWN_SECONDS = 2.0
"""Downtime of the server, longer than a client takes to deliver what it has polled."""


class Crowd:
    """Consumers of one stream in their groups, observed from outside."""

    def __init__(
        self, server: ServerProcess, stack: ExitStack, directory: Path, *, groups: int, partitions: int, seed: int
    ) -> None:
        self.consumers: list[Consumer] = []
        self.groups = [f"group {number}" for number in range(groups)]
        self.rebalanced_ms: list[float] = []
        self.joins = self.leaves = self.crashes = 0
        self.server_starts_ns: list[int] = []
        self.partitions = partitions
        self._choice = random.Random(seed)
        self._server = server
        self._stack = stack
        self._directory = directory
        with RawConnection.as_root(server.address) as connection:
            connection.create_topic("s", partitions=partitions)
            for group in self.groups:
                connection.ok(Code.CREATE_CONSUMER_GROUP, frames.ident("s") + frames.ident("t") + frames.name(group))

    def alive(self, group: str) -> list[Consumer]:
        """Return the consumers of a group that were not asked to end."""
        return [consumer for consumer in self.consumers if consumer.group == group and consumer.is_alive]

    def arrive(self, group: str) -> None:
        """Start a consumer."""
        consumer = Consumer(len(self.consumers), self._server.address, "s", group, self._directory)
        self._stack.callback(consumer.end, kill=True)
        self.consumers.append(consumer)
        self.joins += 1

    def scene(self) -> None:
        """Start, stop or kill a consumer; the group then rebalances."""
        group = self._choice.choice(self.groups)
        alive = self.alive(group)
        began = time.monotonic()
        if len(alive) < 2 or (len(alive) < ALIVE_MAX and self._choice.random() < 0.4):
            self.arrive(group)
            # Wait for the membership: the startup of an interpreter is not under test.
            self._until_members(group, len(alive) + 1)
            began = time.monotonic()
        else:
            kill = self._choice.random() < 0.6
            self.crashes += kill
            self.leaves += not kill
            self._choice.choice(alive).end(kill=kill)
            self._until_members(group, len(alive) - 1)
        self._until_fair(group)
        self.rebalanced_ms.append((time.monotonic() - began) * 1000)
        time.sleep(self._choice.uniform(0.05, 0.4))

    def settle(self) -> None:
        """Wait until every running consumer is a member."""
        for group in self.groups:
            while not self.alive(group):
                self.arrive(group)
            self._until_members(group, len(self.alive(group)))

    def kill_server(self) -> None:
        """Kill the server, restart it a little later on the same directory and port, and replace every consumer.

        The official client reconnects, logs in and joins again, but may never poll again: it stays a member that reads
        nothing, which the application cannot notice. So the application is restarted.
        """
        self._server.kill()
        time.sleep(DOWN_SECONDS)
        self.server_starts_ns.append(time.monotonic_ns())
        self._server.start()
        for group in self.groups:
            before = self.alive(group)
            for consumer in before:
                consumer.end(kill=self._choice.random() < 0.5)
            for _ in before:
                self.arrive(group)

    def _until_members(self, group: str, count: int) -> None:
        eventually(f"{count} members", lambda: len(self._assigned(group)) == count, timeout_seconds=90)

    def _until_fair(self, group: str) -> None:
        # A member that does not release its partitions keeps them for up to 30 s.
        eventually("all is fair", lambda: self._is_fair(group), timeout_seconds=90)

    def _is_fair(self, group: str) -> bool:
        counts = [len(owned) for owned in self._assigned(group).values()]
        return not counts or (sum(counts) == self.partitions and max(counts) - min(counts) <= 1)

    def _assigned(self, group: str) -> dict[int, list[int]]:
        with RawConnection.as_root(self._server.address) as connection:
            members = assignment(connection, "s", group)
        everything = [partition for owned in members.values() for partition in owned]
        assert len(everything) == len(set(everything)), "a partition has two owners"
        return members

    def drained(self) -> dict[int, int]:
        """Wait until every group has processed everything; return the number of messages by partition."""
        with RawConnection.as_root(self._server.address) as connection:
            counts = ends(connection, "s", self.partitions)

            def behind(group: str) -> dict[int, tuple[int | None, int]]:
                who = frames.consumer(group, group=True)
                stored = {number: connection.stored_offset("s", "t", number, who=who) for number in counts}
                return {
                    number: (stored[number], count)
                    for number, count in counts.items()
                    if count and stored[number] != count - 1
                }

            for group in self.groups:
                deadline = time.monotonic() + 60
                while left := behind(group):
                    assert time.monotonic() < deadline, f"{group}: stored offsets and ends of partitions: {left}"
                    time.sleep(0.05)
        return counts

    def check(self, counts: dict[int, int]) -> int:
        """Check the received messages of all consumers; return the number of repeated deliveries."""
        reported = {consumer.number: consumer.stopped_at_ns or 0 for consumer in self.consumers}
        again = 0
        for group in self.groups:
            receipts = self._receipts(group)
            check_receipts(receipts, counts, reported, self.server_starts_ns)
            again += len(receipts) - sum(counts.values())
        return again

    def _receipts(self, group: str) -> list[Receipt]:
        found = [r for consumer in self.consumers if consumer.group == group for r in consumer.receipts()]
        return sorted(found, key=lambda receipt: receipt.at_ns)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("groups", "partitions", "scenes", "kills", "seed"),
    [(2, 12, 10, 0, 1), (2, 12, 3, 2, 3)],
    ids=["two groups", "the server is killed"],
)
@pytest.mark.timeout(300)
def test_nothing_is_missed_and_nothing_is_shared(
    server: ServerProcess,
    stack: ExitStack,
    tmp_path: Path,
    show: list[str],
    groups: int,
    partitions: int,
    scenes: int,
    kills: int,
    seed: int,
) -> None:
    """Every message reaches every group and none is skipped. Two members receive the same message only if the first
    member, or the server that had delivered it, stopped before the second member received it.
    """
    crowd = Crowd(server, stack, tmp_path, groups=groups, partitions=partitions, seed=seed)
    producer = Producer(server.address, "s", partitions, seed)
    stack.callback(producer.stop)
    for group in crowd.groups * 2:
        crowd.arrive(group)
    crowd.settle()
    for _ in range(kills):
        for _ in range(scenes):
            crowd.scene()
        crowd.kill_server()
        crowd.settle()
    for _ in range(scenes):
        crowd.scene()
    producer.stop()
    counts = crowd.drained()
    for partition, acknowledged in producer.acknowledged.items():
        assert counts[partition] >= acknowledged, "an acknowledged message is gone"
    for consumer in crowd.consumers:
        consumer.end(kill=False)
    again = crowd.check(counts)
    times = sorted(crowd.rebalanced_ms)
    show.append(
        f"{sum(counts.values())} messages to each of {groups} group(s) on {partitions} partitions; "
        f"{crowd.joins} joins, {crowd.leaves} leaves, {crowd.crashes} crashes, {kills} kills of the server; "
        f"{again} received again; "
        f"rebalanced in {statistics.median(times):.0f} ms (median), {times[-1]:.0f} ms (at most)"
    )


def receipts(*places: tuple[int, int, int]) -> list[Receipt]:
    """Return receipts one nanosecond apart from (partition, offset, consumer)."""
    return [Receipt(at_ns, partition, offset, consumer) for at_ns, (partition, offset, consumer) in enumerate(places)]


NOT_REPORTED = 2**63


@pytest.mark.parametrize(
    ("got", "stopped_at_ns", "server_starts_ns", "problem"),
    [
        (receipts((0, 0, 1), (0, 1, 1)), {1: NOT_REPORTED}, (), None),
        (receipts((0, 0, 1)), {1: NOT_REPORTED}, (), "the last ones are missing"),
        (receipts((0, 1, 1), (0, 0, 1)), {1: NOT_REPORTED}, (), "came before those in front of it"),
        (receipts((0, 0, 1), (0, 0, 2), (0, 1, 2)), {1: NOT_REPORTED, 2: NOT_REPORTED}, (), "both members"),
        (receipts((0, 0, 1), (0, 0, 2), (0, 1, 2)), {1: 0, 2: NOT_REPORTED}, (), None),
        (receipts((0, 0, 1), (0, 0, 2), (0, 1, 1)), {1: 0, 2: NOT_REPORTED}, (), "both members"),
        (receipts((0, 0, 1), (0, 0, 2), (0, 1, 2)), {1: NOT_REPORTED, 2: NOT_REPORTED}, (1,), None),
        (receipts((0, 0, 1), (0, 0, 2), (0, 1, 2)), {1: NOT_REPORTED, 2: NOT_REPORTED}, (2,), "both members"),
    ],
)
def test_what_is_looked_for_is_found(
    got: list[Receipt], stopped_at_ns: dict[int, int], server_starts_ns: tuple[int, ...], problem: str | None
) -> None:
    if problem is None:
        check_receipts(got, {0: 2}, stopped_at_ns, server_starts_ns)
    else:
        with pytest.raises(AssertionError, match=problem):
            check_receipts(got, {0: 2}, stopped_at_ns, server_starts_ns)
