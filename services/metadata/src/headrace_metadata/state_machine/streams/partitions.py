"""Commands on the partitions of a topic, which are always numbered 0 to n-1.

Statuses in the order in which they are checked, which clients of the binary protocol rely on: create 2015,
1009, 2010, then 2015 for a topic that would grow beyond its limit; delete 2015, 1009, 2010, 2019.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.groups import groups
from headrace_metadata.state_machine.placement import placement
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import Partition, Topic
from headrace_proto.errors import Status
from headrace_proto.limits import PARTITIONS_PER_COMMAND_MAX, PARTITIONS_PER_TOPIC_MAX
from headrace_proto.metadata.v1 import CreatePartitions, DeletePartitions, Reply


def create(state: State, context: CommandContext, command: CreatePartitions) -> Reply:
    """Append partitions."""
    if not 1 <= command.partitions_count <= PARTITIONS_PER_COMMAND_MAX:
        raise Refused(Status.TOO_MANY_PARTITIONS)
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    first_id = len(topic.partitions)
    end_id = first_id + command.partitions_count
    if end_id > PARTITIONS_PER_TOPIC_MAX:
        raise Refused(Status.TOO_MANY_PARTITIONS)

    grown = Topic()
    grown.CopyFrom(topic)
    grown.partitions.extend(created_by(context, range(first_id, end_id)))
    state.catalog.put_topic(grown)
    groups.resize(state, context, grown)
    placement.follow(state, context, grown)
    return Reply()


def delete(state: State, context: CommandContext, command: DeletePartitions) -> Reply:
    """Remove the highest-numbered partitions, possibly all of them."""
    if command.partitions_count == 0:
        raise Refused(Status.TOO_MANY_PARTITIONS)
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    if command.partitions_count > len(topic.partitions):
        raise Refused(Status.INVALID_PARTITIONS_COUNT)

    shrunk = Topic()
    shrunk.CopyFrom(topic)
    del shrunk.partitions[-command.partitions_count :]
    state.catalog.put_topic(shrunk)
    groups.resize(state, context, shrunk)
    placement.follow(state, context, shrunk)
    state.stages.shrink_topic(shrunk.stream_id, shrunk.id, len(shrunk.partitions))
    return Reply()


def created_by(context: CommandContext, partition_ids: range) -> list[Partition]:
    """Return new partitions.

    Their incarnation is the number of the context: with the partition id, it is unique within the topic forever.
    """
    return [
        Partition(id=partition_id, created_at_micros=context.timestamp_micros, incarnation=context.op)
        for partition_id in partition_ids
    ]
