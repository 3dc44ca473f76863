"""Commands on the permissions of users, and removal of permissions on deleted objects.

Statuses of an update in the order in which they are checked: 20, 49.

Identifiers that do not exist (yet) are accepted, as clients of the binary protocol expect: an administrator may prepare
permissions. Permissions on deleted objects are removed because their identifiers are reused.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import Refused
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import GlobalPermissions, Permissions, StreamPermissions, User
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Reply, UpdatePermissions
from headrace_proto.well_known import ROOT_USER_ID


def update(state: State, command: UpdatePermissions) -> Reply:
    """Replace the permissions of a user; without any the user may do nothing that needs one."""
    user = state.accounts.user(command.user_id)
    if user.id == ROOT_USER_ID:
        raise Refused(Status.CANNOT_CHANGE_PERMISSIONS)

    granted = canonical(command.permissions) if command.HasField("permissions") else None
    state.accounts.put_user(_with_permissions(user, granted))
    return Reply()


def canonical(permissions: Permissions) -> Permissions:
    """Return the same permissions in canonical order: ascending by id, of duplicates the last."""
    streams = {stream.stream_id: stream for stream in permissions.streams}
    result = Permissions(streams=[_canonical_stream(streams[stream_id]) for stream_id in sorted(streams)])
    _global_of(result).CopyFrom(_global_of(permissions))
    return result


def forget_stream(state: State, stream_id: int) -> None:
    """Remove the records for a stream from the permissions of all users."""
    for user in list(state.accounts.users()):
        kept = [stream for stream in user.permissions.streams if stream.stream_id != stream_id]
        if len(kept) < len(user.permissions.streams):
            state.accounts.put_user(_with_permissions(user, _with_streams(user.permissions, kept)))


def forget_topic(state: State, stream_id: int, topic_id: int) -> None:
    """Remove the records for a topic from the permissions of all users; those for its stream stay."""
    for user in list(state.accounts.users()):
        if any(
            stream.stream_id == stream_id and any(topic.topic_id == topic_id for topic in stream.topics)
            for stream in user.permissions.streams
        ):
            streams = [
                _without_topic(stream, topic_id) if stream.stream_id == stream_id else stream
                for stream in user.permissions.streams
            ]
            state.accounts.put_user(_with_permissions(user, _with_streams(user.permissions, streams)))


def _canonical_stream(stream: StreamPermissions) -> StreamPermissions:
    topics = {topic.topic_id: topic for topic in stream.topics}
    result = StreamPermissions()
    result.CopyFrom(stream)
    del result.topics[:]
    result.topics.extend(topics[topic_id] for topic_id in sorted(topics))
    return result


def _without_topic(stream: StreamPermissions, topic_id: int) -> StreamPermissions:
    result = StreamPermissions()
    result.CopyFrom(stream)
    del result.topics[:]
    result.topics.extend(topic for topic in stream.topics if topic.topic_id != topic_id)
    return result


def _with_streams(permissions: Permissions, streams: list[StreamPermissions]) -> Permissions:
    result = Permissions(streams=streams)
    _global_of(result).CopyFrom(_global_of(permissions))
    return result


def _with_permissions(user: User, permissions: Permissions | None) -> User:
    result = User()
    result.CopyFrom(user)
    if permissions is None:
        result.ClearField("permissions")
    else:
        result.permissions.CopyFrom(permissions)
    return result


def _global_of(permissions: Permissions) -> GlobalPermissions:
    # The field's name is a keyword of Python, so the attribute cannot be written.
    record: GlobalPermissions = getattr(permissions, "global")
    return record
