"""Commands on streams.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
create 4, 1012, 1006; update 4, 1009, 1012; delete and purge 1009.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.streams import topics
from headrace_metadata.state_machine.users import permissions
from headrace_proto.catalog.v1 import Stream
from headrace_proto.errors import Status
from headrace_proto.limits import STREAMS_MAX
from headrace_proto.metadata.v1 import CreateStream, DeleteStream, PurgeStream, Reply, UpdateStream


def create(state: State, context: CommandContext, command: CreateStream) -> Reply:
    """Create a stream without topics, with the smallest free id."""
    check_name(command.name)
    if state.catalog.stream_id_named(command.name) is not None:
        raise Refused(Status.STREAM_NAME_ALREADY_EXISTS)
    stream_id = state.catalog.unused_stream_id(STREAMS_MAX)
    if stream_id is None:
        raise Refused(Status.CANNOT_CREATE_STREAM)

    stream = Stream(
        id=stream_id,
        name=command.name,
        created_at_micros=context.timestamp_micros,
        incarnation=context.op,
    )
    state.catalog.put_stream(stream)
    return Reply(stream=stream)


def update(state: State, command: UpdateStream) -> Reply:
    """Rename a stream; its current name is accepted."""
    check_name(command.name)
    stream = state.catalog.stream(command.stream_id)
    if state.catalog.stream_id_named(command.name) not in {None, stream.id}:
        raise Refused(Status.STREAM_NAME_ALREADY_EXISTS)

    renamed = Stream()
    renamed.CopyFrom(stream)
    renamed.name = command.name
    state.catalog.put_stream(renamed)
    return Reply()


def delete(state: State, command: DeleteStream) -> Reply:
    """Delete a stream with its contents, and all permissions on it because its id will be reused."""
    stream = state.catalog.stream(command.stream_id)
    state.catalog.remove_stream(stream)
    state.groups.remove_stream(stream.id)
    state.nodes.remove_stream(stream.id)
    state.stages.remove_stream(stream.id)
    state.transactions.remove_stream(stream.id)
    state.pins.remove_stream(stream.id)
    permissions.forget_stream(state, stream.id)
    return Reply()


def purge(state: State, command: PurgeStream) -> Reply:
    """Purge every topic of a stream."""
    stream = state.catalog.stream(command.stream_id)
    for topic in state.catalog.topics_of(stream.id):
        topics.raise_purge_epoch(state, topic)
    return Reply()
