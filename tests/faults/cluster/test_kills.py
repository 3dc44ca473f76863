"""Kill and restart of each process of a cluster in turn, under load (GW-8, CTL-2, LOG-10, LOG-15)."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.cluster import Cluster, ClusterReplica, GatewayProcess, NodeProcess
from tests.compatibility.groups.processes import assignment
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import stream_details
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.faults.audit import Audit
from tests.faults.cluster.load import ClusterLoad
from tests.faults.workload import PARTITIONS_COUNT, STREAM, TOPIC

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "1"))
"""Number of kills of each process, from the environment."""
DOWN_SECONDS = 0.7
UNNOTICED_SECONDS_MAX = 10.0
"""Maximum seconds of a request that a fault must not affect, on an overloaded machine; normal are some milliseconds."""
AVAILABLE_SECONDS_MAX = 30.0
"""Maximum seconds of a catalog change while the replicas elect another primary."""


def holders(cluster: Cluster, stream_id: int) -> dict[NodeProcess, set[int]]:
    """Return the partitions of a stream's first topic by node; empty until the placement is known."""
    catalog = cluster.state().catalog
    names = {node.id: node.name for node in catalog.nodes}
    held: dict[str, set[int]] = {node.name: set() for node in cluster.nodes}
    for topic in catalog.topic_placements:
        if topic.stream_id == stream_id:
            for number, partition in enumerate(topic.partitions):
                held[names[partition.node_ids[0]]].add(number)
    return {node: held[node.name] for node in cluster.nodes}


def topic_on_both(cluster: Cluster) -> dict[NodeProcess, set[int]]:
    """Create the topic of the load, repeatedly until each node has partitions of it; return the placement."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        for attempt in range(20):
            root.create_topic(STREAM, TOPIC, PARTITIONS_COUNT)
            stream = stream_details(root.ok(Code.GET_STREAM, frames.ident(STREAM)))[0].id
            eventually("it is placed", lambda stream=stream: any(holders(cluster, stream).values()))
            held = holders(cluster, stream)
            if all(held.values()):
                return held
            root.ok(Code.UPDATE_STREAM, frames.ident(STREAM) + frames.name(f"on one node {attempt}"))
    raise AssertionError("one node gets everything")


def audited(cluster: Cluster, audit: Audit) -> None:
    """Check everything that was acknowledged, through each gateway."""
    for gateway in cluster.gateways:
        with RawConnection.as_root(gateway.listeners.tcp) as connection:
            audit.check(connection)


def change_something(gateway: GatewayProcess, name: str) -> None:
    """Send a command that needs the metadata service and no node."""
    began = time.monotonic()
    with RawConnection.as_root(gateway.listeners.tcp) as root:
        root.ok(Code.CREATE_STREAM, frames.name(name))
        root.ok(Code.UPDATE_STREAM, frames.ident(name) + frames.name(f"{name}, renamed"))
        root.ok(Code.DELETE_STREAM, frames.ident(f"{name}, renamed"))
    assert time.monotonic() - began < AVAILABLE_SECONDS_MAX


@pytest.mark.timeout(120 + 120 * ROUNDS)
def test_each_process_is_killed(cluster: Cluster, show: list[str]) -> None:
    """The metadata stays available; clients of the other node's partitions are not affected; no acknowledged message is
    lost; the death of a gateway costs its clients one reconnect. TEST_SEED repeats a run as far as timing allows.
    """
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
    show.append(f"seed {seed}")
    choice = random.Random(seed)
    load = ClusterLoad([gateway.listeners.tcp for gateway in cluster.gateways], seed)
    held = topic_on_both(cluster)
    load.start()
    audit = Audit(load)
    load.until_all_work()
    for _ in range(ROUNDS):
        for victim in choice.sample(cluster.services, len(cluster.services)):
            before = {worker: worker.way.losses for worker in load.workers}
            refused = {worker: worker.watched.refusals for worker in load.workers}
            ways = {worker: worker.way.address for worker in load.workers}
            load.begin_phase()
            victim.kill()
            load.pass_by(DOWN_SECONDS)
            unconcerned = load.workers
            if isinstance(victim, NodeProcess):
                unconcerned = load.of_partitions(set(range(PARTITIONS_COUNT)) - held[victim])
                for number, gateway in enumerate(cluster.gateways):
                    change_something(gateway, f"without {victim.name} {number}")
            elif isinstance(victim, GatewayProcess):
                # Clients of the killed gateway reconnect to the other one, once, whenever they notice.
                unconcerned = [worker for worker in load.workers if ways[worker] != victim.listeners.tcp]
                load.until_all_work()
                assert all(worker.way.losses - before[worker] <= 1 for worker in load.workers)
            load.until_all_work(unconcerned)
            assert [worker.name for worker in unconcerned if worker.way.losses != before[worker]] == []
            assert [worker.name for worker in unconcerned if worker.watched.refusals != refused[worker]] == []
            others = [worker for worker in unconcerned if worker is not load.librarian]
            # The list may be empty: after the death of one gateway all clients are at the other.
            slowest = max((worker.watched.slowest_seconds for worker in others), default=0.0)
            assert slowest < UNNOTICED_SECONDS_MAX, f"without {victim.name} a request took {slowest:.1f} s"
            assert load.librarian.watched.slowest_seconds < AVAILABLE_SECONDS_MAX
            victim.start()
            if isinstance(victim, ClusterReplica):
                cluster.wait_for(victim)
            cluster.wait_ready()
            load.begin_phase()
            load.until_all_work()
            load.check_alive()
            show.append(f"{victim.name}: {slowest * 1000:.0f} ms at most for those whom it did not concern")
    load.finish()
    audited(cluster, audit)
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as connection:
        audit.check_everything(connection)
    in_flight = sum(len(producer.unanswered) for producer in load.producers)
    show.append(f"{audit.messages_count} messages, {in_flight} batches were in flight")


@pytest.mark.long
def test_members_of_a_dead_gateway(cluster: Cluster) -> None:
    """Members of a dead gateway expire; members at the other gateway get their partitions and continue at the stored
    offsets.
    """
    dead, alive = cluster.gateways
    with RawConnection.as_root(alive.listeners.tcp) as root:
        root.create_topic("groups", partitions=4)
        path = frames.ident("groups") + frames.ident("t")
        root.ok(Code.CREATE_CONSUMER_GROUP, path + frames.name("g"))
        group = path + frames.ident("g")
        mine = RawConnection.as_root(alive.listeners.tcp)
        mine.ok(Code.JOIN_CONSUMER_GROUP, group)
        theirs = RawConnection.as_root(dead.listeners.tcp)
        eventually("the group is known", lambda: theirs.ok(Code.GET_CONSUMER_GROUP, group))
        theirs.ok(Code.JOIN_CONSUMER_GROUP, group)
        eventually("two members", lambda: shares(root) == [2, 2])
        dead.kill()
        eventually("the other one has everything", lambda: shares(root) == [4], timeout_seconds=60)
        mine.close()
        theirs.close()
        dead.start()
        cluster.wait_for(dead)
        with RawConnection.as_root(dead.listeners.tcp) as again:
            again.ok(Code.JOIN_CONSUMER_GROUP, group)
            eventually("there is one member again", lambda: shares(root) == [4])


def shares(connection: RawConnection) -> list[int]:
    """Return the number of partitions of each member in ascending order."""
    return sorted(map(len, assignment(connection, "groups", "g").values()))
