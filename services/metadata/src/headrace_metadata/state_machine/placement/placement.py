"""Placement of partitions on nodes: commands, and the effects of changes of topics and nodes.

Statuses in the order in which they are checked: place 1009, 2010, 3007, 20100, 20104; rebalance 1009, 2010.

A partition is placed once, by hash, and stays, because moving it means moving its data. It gets further replicas
automatically while it has fewer than its topic wants. Any other move of a replica is a command. A node that is to give
up its replica is kept in the record until the others have all data, even if the placement changes meanwhile. Until
then, the leader of the partition remains the leader, whichever node is preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.placement.placement_order import packed_namespace, ranked
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import PartitionPlacement, Topic, TopicPlacement
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import CompletePlacements, PlacePartition, Rebalanced, RebalanceTopic, Reply

_Eligible = Sequence[tuple[int, int]]


def place(state: State, context: CommandContext, command: PlacePartition) -> Reply:
    """Pin a partition to nodes, or return it to the placement by hash."""
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    if command.partition_id >= len(topic.partitions):
        raise Refused(Status.PARTITION_NOT_FOUND)
    chosen = list(command.node_ids)
    for node_id in chosen:
        state.nodes.node(node_id)
    present = _partitions_of(state, topic)[command.partition_id]
    eligible = state.nodes.eligible()
    allowed = {node_id for node_id, _ in eligible} | set(present.node_ids)
    if len(chosen) > topic.replication_factor or len(set(chosen)) < len(chosen) or not allowed.issuperset(chosen):
        raise Refused(Status.INVALID_PLACEMENT)

    if chosen:
        wanted = _filled(topic, command.partition_id, chosen, eligible)
    else:
        wanted = _wanted(topic, command.partition_id, present.node_ids, eligible)
    is_pinned = bool(chosen)
    if present.is_pinned != is_pinned or (is_pinned and wanted != present.node_ids):
        _put(state, context, topic, {command.partition_id: (wanted, is_pinned)})
    return Reply()


def rebalance(state: State, context: CommandContext, command: RebalanceTopic) -> Reply:
    """Move partitions of a topic to their current placement by hash."""
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    eligible = state.nodes.eligible()
    moved: dict[int, tuple[Sequence[int], bool]] = {}
    remaining = 0
    for partition_id, present in enumerate(_partitions_of(state, topic)) if eligible else ():
        wanted = _wanted(topic, partition_id, present.node_ids, eligible)
        if present.is_pinned or wanted == present.node_ids:
            continue
        if present.leaving_node_ids or 0 < command.partitions_max <= len(moved):
            remaining += 1
        else:
            moved[partition_id] = (wanted, False)
    if moved:
        _put(state, context, topic, moved)
    return Reply(rebalanced=Rebalanced(moved_count=len(moved), remaining_count=remaining))


def complete(state: State, command: CompletePlacements) -> Reply:
    """Drop replicas whose hand-over is complete.

    Entries of placements that have changed meanwhile are ignored, because the proposer cannot know that.
    """
    present = state.nodes.placement(command.stream_id, command.topic_id)
    if present is None:
        return Reply()
    completed = TopicPlacement()
    completed.CopyFrom(present)
    for done in command.placements:
        if done.partition_id < len(completed.partitions):
            partition = completed.partitions[done.partition_id]
            if partition.epoch == done.epoch:
                del partition.leaving_node_ids[:]
                partition.holder_node_id = partition.node_ids[0] if partition.node_ids else 0
    if completed != present:
        state.nodes.put_placement(completed)
    return Reply()


def follow(state: State, context: CommandContext, topic: Topic) -> None:
    """Adapt the placement to a new or changed topic: number of partitions and number of replicas."""
    if not state.nodes.is_used:
        return
    present = state.nodes.placement(topic.stream_id, topic.id)
    kept = _partitions_of(state, topic)
    eligible = state.nodes.eligible()
    changed = {
        partition_id: (nodes, partition.is_pinned)
        for partition_id, partition in enumerate(kept)
        if (nodes := _filled(topic, partition_id, partition.node_ids, eligible)) != partition.node_ids
    }
    if changed or present is None or len(present.partitions) != len(kept):
        _put(state, context, topic, changed)


def fill(state: State, context: CommandContext) -> None:
    """Add replicas to every partition that has fewer than its topic wants."""
    for stream in state.catalog.streams():
        for topic in state.catalog.topics_of(stream.id):
            follow(state, context, topic)


def is_named(state: State, node_id: int) -> bool:
    """Return whether a node has a replica of any partition, including replicas to be given up."""
    return any(
        node_id in partition.node_ids or node_id in partition.leaving_node_ids
        for placement in state.nodes.placements()
        for partition in placement.partitions
    )


def forget_node(state: State, context: CommandContext, node_id: int) -> None:
    """Remove a node from every placement; other nodes get its replicas."""
    eligible = [node for node in state.nodes.eligible() if node[0] != node_id]
    for placement in list(state.nodes.placements()):
        topic = state.catalog.topic(placement.stream_id, placement.topic_id)
        changed = {}
        for partition_id, partition in enumerate(placement.partitions):
            if node_id in partition.node_ids or node_id in partition.leaving_node_ids:
                rest = [other for other in partition.node_ids if other != node_id]
                changed[partition_id] = (_filled(topic, partition_id, rest, eligible), partition.is_pinned)
        if changed:
            _put(state, context, topic, changed, gone=node_id)


def _partitions_of(state: State, topic: Topic) -> list[PartitionPlacement]:
    """Return the placements of a topic's partitions; new partitions are unplaced."""
    present = state.nodes.placement(topic.stream_id, topic.id)
    known = list(present.partitions) if present is not None else []
    count = len(topic.partitions)
    return known[:count] + [PartitionPlacement() for _ in range(count - len(known))]


def _filled(topic: Topic, partition_id: int, node_ids: Iterable[int], eligible: _Eligible) -> list[int]:
    """Return as many of these nodes as the topic wants, filled up with others in hash order if there are too few."""
    filled = list(node_ids)[: topic.replication_factor]
    if len(filled) < topic.replication_factor and len(eligible) > 0:
        others = [node for node in eligible if node[0] not in filled]
        order = ranked(packed_namespace(topic.stream_id, topic.id, partition_id), others)
        filled.extend(order[: topic.replication_factor - len(filled)])
    return filled


def _wanted(topic: Topic, partition_id: int, node_ids: Iterable[int], eligible: _Eligible) -> list[int]:
    """Return the nodes preferred by the hash; if there are too few nodes, the current ones stay."""
    chosen = _filled(topic, partition_id, (), eligible)
    return (chosen + [node_id for node_id in node_ids if node_id not in chosen])[: topic.replication_factor]


def _put(
    state: State,
    context: CommandContext,
    topic: Topic,
    changed: Mapping[int, tuple[Sequence[int], bool]],
    *,
    gone: int | None = None,
) -> None:
    """Store the topic's placement with new nodes for some partitions, and record whether an operator chose them."""
    partitions = _partitions_of(state, topic)
    for partition_id, (node_ids, is_pinned) in changed.items():
        present = partitions[partition_id]
        holding = {*present.node_ids, *present.leaving_node_ids}
        leaving = sorted(holding - {*node_ids, gone})
        # If no other node remains, the partition stays with a node that was to give it up.
        holder = present.holder_node_id
        if holder in {0, gone}:
            holder = next(iter((*node_ids, *leaving)), 0)
        partitions[partition_id] = PartitionPlacement(
            node_ids=node_ids,
            leaving_node_ids=leaving,
            epoch=context.op,
            is_pinned=is_pinned,
            holder_node_id=holder,
        )
    state.nodes.put_placement(TopicPlacement(stream_id=topic.stream_id, topic_id=topic.id, partitions=partitions))
