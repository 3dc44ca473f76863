"""Containers die one after the other while clients work, and come back by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from headrace_core import Client, CoreError
from tests.containers.cluster import GATEWAYS, METADATA, NODES, OTHERS, Containers, wait_until
from tests.containers.load import PARTITIONS_COUNT, TOPIC, Entrance, Load

SLOWEST_SECONDS = 5.0
"""Maximum latency of a batch that does not pass the killed container, on a loaded machine."""
DEATHS_MAX = 3
"""Maximum number of kills of a node until a client has noticed one."""
PRIMARY_SECONDS = 15.0
"""Maximum latency of a metadata command while the primary is replaced."""


def test_each_replica_of_the_metadata_service(cluster: Containers, entrance: Entrance, name: str) -> None:
    """Metadata commands succeed throughout, and messages are unaffected."""
    load = Load(entrance, name, seed=1)
    with load.running(), commands(entrance, name) as slowest:
        before = load.notices()
        for replica in METADATA:
            die(cluster, replica)
            load.wait_progress()
        assert load.notices() == before
        assert max(sender.longest_seconds for sender in load.senders) < SLOWEST_SECONDS
    assert slowest[0] < PRIMARY_SECONDS
    load.check()


def test_each_partition_node(cluster: Containers, entrance: Entrance, name: str, show: list[str]) -> None:
    """Clients of partitions on one node never notice the death of the other; no acknowledged message is lost."""
    load = Load(entrance, name, seed=2)
    noticed = []
    with load.running():
        for node in NODES:
            concerned: set[int] = set()
            # The node may restart so quickly that no batch was in flight.
            for _ in range(DEATHS_MAX):
                before = load.notices()
                load.forget_slowness()
                die(cluster, node)
                load.wait_progress()
                pairs = zip(load.senders, before, load.notices(), strict=True)
                broken = {sender.number for sender, earlier, now in pairs if now > earlier}
                # A batch that was not in flight when the node died waits for the node instead.
                slow = {
                    s.number: f"{s.longest_seconds:.1f} s" for s in load.senders if s.longest_seconds > SLOWEST_SECONDS
                }
                show.append(f"{node}: fate unknown in partitions {sorted(broken)}, slow in {slow}")
                concerned |= broken | set(slow)
                if concerned:
                    break
            noticed.append(concerned)
    assert all(noticed), f"a node without partitions: {show}"
    assert not set.intersection(*noticed), f"partitions that noticed both: {show}"
    load.check()


def test_each_gateway(cluster: Containers, entrance: Entrance, name: str) -> None:
    """Clients of the gateway reconnect once, through the balancer; group members are replaced, all messages are read,
    and the audit trail is kept.
    """
    load = Load(entrance, name, seed=3)
    client = entrance.open()
    client.create_group(name, TOPIC, "g")
    client.close()
    members = [Member(entrance, name) for _ in range(4)]
    with load.running():
        for member in members:
            member.start()
        for gateway in GATEWAYS:
            before = [sender.lost_connections for sender in load.senders]
            recorded = oldest_events(cluster, gateway)
            die(cluster, gateway)
            load.wait_progress()
            assert recorded
            assert recorded <= oldest_events(cluster, gateway)
            after = [sender.lost_connections for sender in load.senders]
            assert all(now - earlier <= 1 for earlier, now in zip(before, after, strict=True)), (before, after)
            assert before != after, "no client was at this gateway"
    load.check()

    def unread() -> dict[int, int]:
        sent = {sender.number: sum(map(len, sender.acknowledged)) for sender in load.senders}
        return {partition: sent[partition] - len(read_by(members, partition)) for partition in sent}

    wait_until(lambda: all(left <= 0 for left in unread().values()), 90, lambda: f"no consumer reads: {unread()}")
    for member in members:
        member.end()
    assert any(member.lost_connections for member in members)


def test_the_others(cluster: Containers, entrance: Entrance, name: str) -> None:
    """Without the database and Prometheus everything goes on; the balancer costs a reconnect."""
    load = Load(entrance, name, seed=4)
    with load.running():
        before = load.notices()
        for other in OTHERS:
            if other != "balancer":
                die(cluster, other)
        assert load.notices() == before
        die(cluster, "balancer")
        load.wait_progress()
    load.check()


def oldest_events(cluster: Containers, gateway: str) -> set[str]:
    """The first line of each file of the audit trail."""
    return set(cluster.inside(gateway, "head -qn 1 /var/lib/headrace/audit/*.jsonl").splitlines())


def die(cluster: Containers, service: str) -> None:
    """Kill a service, and wait until it was started again and is healthy."""
    before = cluster.starts(service)
    cluster.kill(service)
    wait_until(lambda: cluster.starts(service) != before, 60, lambda: f"{service} does not come back")
    cluster.wait_healthy(service)


@contextmanager
def commands(entrance: Entrance, name: str) -> Iterator[list[float]]:
    """Send metadata commands continuously; the first list element is the longest latency in seconds."""
    slowest = [0.0]
    failures: list[BaseException] = []
    is_over = threading.Event()

    def give() -> None:
        try:
            client = entrance.open()
            number = 0
            while not is_over.is_set():
                began = time.monotonic()
                client.create_topic(name, f"topic {number}", 1)
                client.delete_topic(name, f"topic {number}")
                slowest[0] = max(slowest[0], time.monotonic() - began)
                number += 1
                time.sleep(0.05)
        except BaseException as failure:  # noqa: BLE001 - it is raised again below
            failures.append(failure)

    thread = threading.Thread(target=give, name="commands", daemon=True)
    thread.start()
    try:
        yield slowest
    finally:
        is_over.set()
        thread.join(60)
    for failure in failures:
        raise failure


class Member(threading.Thread):
    """Reads as a member of a group, and joins anew after its connection was lost."""

    def __init__(self, entrance: Entrance, stream: str) -> None:
        super().__init__(name="member", daemon=True)
        self.seen: dict[int, set[int]] = {partition: set() for partition in range(PARTITIONS_COUNT)}
        """Offsets by partition."""
        self.lost_connections = 0
        self._entrance = entrance
        self._stream = stream
        self._may_go_on = True

    def run(self) -> None:
        """Read until stopped."""
        while self._may_go_on:
            try:
                client = self._entrance.open()
                client.join_group(self._stream, TOPIC, "g")
                self._read(client)
                client.close()
            except CoreError:
                self.lost_connections += 1
                time.sleep(0.1)

    def end(self) -> None:
        """Stop it, and wait for it."""
        self._may_go_on = False
        self.join(60)
        assert not self.is_alive(), "a member does not end"

    def _read(self, client: Client) -> None:
        while self._may_go_on:
            polled = client.poll(self._stream, TOPIC, None, group="g", count=1000)
            self.seen[polled.partition_id].update(message.offset for message in polled.messages)
            if polled.messages:
                # Store the offset only now: an auto-commit may store offsets of messages that never arrived.
                last = polled.messages[-1].offset
                client.store_offset(self._stream, TOPIC, polled.partition_id, last, group="g")
            else:
                time.sleep(0.02)


def read_by(members: list[Member], partition: int) -> set[int]:
    """Offsets of a partition that all members together have read."""
    return set().union(*(member.seen[partition] for member in members))
