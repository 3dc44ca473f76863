"""Builders of commands about partition nodes for tests."""

from headrace_proto.metadata.v1 import (
    Command,
    CompletedPlacement,
    CompletePlacements,
    DrainNode,
    PlacePartition,
    Pulse,
    RebalanceTopic,
    RegisterNode,
    RemoveNode,
    RenewNodeLease,
)

LEASE_MICROS = 10_000


def register(name, incarnation=1, *, shards=2, lease_micros=LEASE_MICROS):
    return Command(
        register_node=RegisterNode(
            name=name,
            incarnation=incarnation,
            binary_address=f"{name}:8100",
            grpc_address=f"{name}:8101",
            shards=shards,
            lease_micros=lease_micros,
        )
    )


def renew(node_id, incarnation=1):
    return Command(renew_node_lease=RenewNodeLease(node_id=node_id, incarnation=incarnation))


def drain(node_id, *, is_draining=True):
    return Command(drain_node=DrainNode(node_id=node_id, is_draining=is_draining))


def remove(node_id, *, with_replicas=False):
    return Command(remove_node=RemoveNode(node_id=node_id, with_replicas=with_replicas))


def place(topic, partition_id, *node_ids):
    stream_id, topic_id = topic
    return Command(
        place_partition=PlacePartition(
            stream_id=stream_id, topic_id=topic_id, partition_id=partition_id, node_ids=node_ids
        )
    )


def rebalance(topic, partitions_max=0):
    stream_id, topic_id = topic
    return Command(
        rebalance_topic=RebalanceTopic(stream_id=stream_id, topic_id=topic_id, partitions_max=partitions_max)
    )


def complete(topic, epochs):
    """Return a completion of partitions with their epochs."""
    stream_id, topic_id = topic
    placements = (CompletedPlacement(partition_id=partition, epoch=epoch) for partition, epoch in epochs.items())
    return Command(
        complete_placements=CompletePlacements(stream_id=stream_id, topic_id=topic_id, placements=placements)
    )


def pulse():
    return Command(pulse=Pulse())
