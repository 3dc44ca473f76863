"""Precondition of commands: reject commands whose target was deleted and its id reused.

Ids of streams, topics and groups are reused. A gateway with an old catalog may resolve a stream name to an id that now
belongs to another stream, on which the caller may have no permission.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command


def check(state: State, command: Command) -> None:
    """Refuse a command whose target was replaced by another object with the same id.

    Raises:
        Refused: The same statuses as for a missing object: 1009, 2010, 5000.
    """
    meant, kind = command.WhichOneof("meant"), command.WhichOneof("operation")
    if meant is None or kind is None:
        return
    operation = getattr(command, kind)
    # An operation without these ids has another target, so the precondition is ignored.
    ids = set(operation.DESCRIPTOR.fields_by_name) & {"stream_id", "topic_id", "group_id"}
    if meant == "stream_incarnation" and "stream_id" in ids:
        if state.catalog.stream(operation.stream_id).incarnation != command.stream_incarnation:
            raise Refused(Status.STREAM_ID_NOT_FOUND)
    elif meant == "topic_incarnation" and {"stream_id", "topic_id"} <= ids:
        if state.catalog.topic(operation.stream_id, operation.topic_id).incarnation != command.topic_incarnation:
            raise Refused(Status.TOPIC_ID_NOT_FOUND)
    elif meant == "group_key" and ids == {"stream_id", "topic_id", "group_id"}:
        topic = state.catalog.topic(operation.stream_id, operation.topic_id)
        if state.groups.group(topic.stream_id, topic.id, operation.group_id).key != command.group_key:
            raise Refused(Status.CONSUMER_GROUP_ID_NOT_FOUND)
