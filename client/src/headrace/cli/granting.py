"""Changes of a user's permissions, which the protocol replaces as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.cli.documents import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS
from headrace.cli.errors import CommandError
from headrace_core import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions

_ROLES: Final = {
    # Reading a topic includes polling it; groups and the list of partitions need more than polling.
    "consumer": (("read_topics",), ("read_topic",)),
    # A producer asks for the number of partitions.
    "producer": (("read_topics", "send_messages"), ("read_topic", "send_messages")),
}
"""Permissions of a role, everywhere and on a stream, and on a topic."""


def rights_of(names: Sequence[str], stream_id: int | None, topic_id: int | None) -> list[str]:
    """Return the permissions that were named, or that belong to the roles that were.

    Raises:
        CommandError: A permission does not exist there.
    """
    there = GLOBAL_RIGHTS if stream_id is None else STREAM_RIGHTS if topic_id is None else TOPIC_RIGHTS
    place = "everywhere" if stream_id is None else "on a stream" if topic_id is None else "on a topic"
    rights: dict[str, None] = {}
    for name in names:
        if name not in there and name not in _ROLES:
            raise CommandError(
                f"there is no permission {name!r} {place} (there are: {', '.join(there)}; "
                f"and the roles {' and '.join(_ROLES)})",
                status=2,
            )
        rights |= dict.fromkeys(_ROLES[name][topic_id is not None] if name in _ROLES else (name,))
    return list(rights)


def changed(
    permissions: Permissions | None,
    stream_id: int | None,
    topic_id: int | None,
    names: Sequence[str],
    *,
    given: bool,
) -> Permissions:
    """Return permissions with some more or less of them.

    Args:
        permissions: The permissions now.
        stream_id: Stream that the change is for; None: all streams.
        topic_id: Topic of the stream that the change is for; None: all topics.
        names: Names of permissions that exist there.
        given: Whether they are given or taken.
    """
    change = dict.fromkeys(names, given)
    everywhere = permissions.everywhere if permissions is not None else GlobalPermissions()
    streams = dict(permissions.streams) if permissions is not None else {}
    if stream_id is None:
        return Permissions(everywhere=GlobalPermissions(**_with(everywhere, GLOBAL_RIGHTS, change)), streams=streams)
    on_stream = streams.get(stream_id, StreamPermissions())
    topics = dict(on_stream.topics)
    if topic_id is None:
        streams[stream_id] = StreamPermissions(**_with(on_stream, STREAM_RIGHTS, change), topics=topics)
    else:
        topics[topic_id] = TopicPermissions(**_with(topics.get(topic_id, TopicPermissions()), TOPIC_RIGHTS, change))
        streams[stream_id] = StreamPermissions(**_with(on_stream, STREAM_RIGHTS, {}), topics=topics)
    return Permissions(everywhere=everywhere, streams=streams)


def _with(rights: Any, names: Sequence[str], change: Mapping[str, bool]) -> dict[str, Any]:
    return {name: getattr(rights, name) for name in names} | dict(change)
