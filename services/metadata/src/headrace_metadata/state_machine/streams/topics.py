"""Commands on topics.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
create 2015, 3, 4, 1009, 2013, 2006; update 3, 4, 1009, 2010, 2013; delete and purge 1009, 2010.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.placement import placement
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.streams import partitions
from headrace_metadata.state_machine.users import permissions
from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_GZIP,
    COMPRESSION_ALGORITHM_NONE,
    Durability,
    Topic,
)
from headrace_proto.errors import Status
from headrace_proto.limits import (
    PARTITIONS_PER_COMMAND_MAX,
    REPLICATION_FACTOR_MAX,
    TOPICS_PER_STREAM_MAX,
)
from headrace_proto.metadata.v1 import CreateTopic, DeleteTopic, PurgeTopic, Reply, UpdateTopic

_COMPRESSIONS = {COMPRESSION_ALGORITHM_NONE, COMPRESSION_ALGORITHM_GZIP}


def create(state: State, context: CommandContext, command: CreateTopic) -> Reply:
    """Create a topic, with the smallest free id of its stream; it may have no partitions."""
    if command.partitions_count > PARTITIONS_PER_COMMAND_MAX:
        raise Refused(Status.TOO_MANY_PARTITIONS)
    _check_settings(command)
    if command.durability not in Durability.values():
        raise Refused(Status.INVALID_COMMAND)
    stream = state.catalog.stream(command.stream_id)
    if state.catalog.topic_id_named(stream.id, command.name) is not None:
        raise Refused(Status.TOPIC_NAME_ALREADY_EXISTS)
    topic_id = state.catalog.unused_topic_id(stream.id, TOPICS_PER_STREAM_MAX)
    if topic_id is None:
        raise Refused(Status.CANNOT_CREATE_TOPIC)

    topic = Topic(
        stream_id=stream.id,
        id=topic_id,
        name=command.name,
        created_at_micros=context.timestamp_micros,
        incarnation=context.op,
        compression=command.compression,
        message_expiry_micros=command.message_expiry_micros,
        max_size_bytes=command.max_size_bytes,
        replication_factor=command.replication_factor,
        durability=command.durability,
        partitions=partitions.created_by(context, range(command.partitions_count)),
    )
    state.catalog.put_topic(topic)
    placement.follow(state, context, topic)
    return Reply(topic=topic)


def update(state: State, context: CommandContext, command: UpdateTopic) -> Reply:
    """Replace the name and the settings of a topic; data, partitions and durability stay."""
    _check_settings(command)
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    if state.catalog.topic_id_named(topic.stream_id, command.name) not in {None, topic.id}:
        raise Refused(Status.TOPIC_NAME_ALREADY_EXISTS)

    updated = Topic()
    updated.CopyFrom(topic)
    updated.name = command.name
    updated.compression = command.compression
    updated.message_expiry_micros = command.message_expiry_micros
    updated.max_size_bytes = command.max_size_bytes
    updated.message_expiry_is_default = command.message_expiry_is_default
    updated.max_size_is_default = command.max_size_is_default
    updated.replication_factor = command.replication_factor
    state.catalog.put_topic(updated)
    placement.follow(state, context, updated)
    return Reply()


def delete(state: State, command: DeleteTopic) -> Reply:
    """Delete a topic with its groups, and all permissions on it because its id will be reused."""
    topic = state.catalog.topic(command.stream_id, command.topic_id)
    state.catalog.remove_topic(topic)
    state.groups.remove_topic(topic.stream_id, topic.id)
    state.nodes.remove_topic(topic.stream_id, topic.id)
    state.stages.remove_topic(topic.stream_id, topic.id)
    permissions.forget_topic(state, topic.stream_id, topic.id)
    return Reply()


def purge(state: State, command: PurgeTopic) -> Reply:
    """Delete all messages and stored offsets of a topic."""
    raise_purge_epoch(state, state.catalog.topic(command.stream_id, command.topic_id))
    return Reply()


def raise_purge_epoch(state: State, topic: Topic) -> None:
    """Raise the purge epoch: the partitions of the topic delete all data, and drop pending publications."""
    purged = Topic()
    purged.CopyFrom(topic)
    purged.purge_epoch += 1
    state.catalog.put_topic(purged)
    state.stages.remove_all_publications(topic.stream_id, topic.id)


def _check_settings(command: CreateTopic | UpdateTopic) -> None:
    # On the wire, 0 stands for a server default, which the proposer must have replaced: a default in the configuration
    # of one server must not change the meaning of a topic on the others.
    resolved = command.message_expiry_micros > 0 and command.max_size_bytes > 0
    replicas_valid = 1 <= command.replication_factor <= REPLICATION_FACTOR_MAX
    if command.compression not in _COMPRESSIONS or not resolved or not replicas_valid:
        raise Refused(Status.INVALID_COMMAND)
    check_name(command.name)
