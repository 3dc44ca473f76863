"""Names of the rights that permissions consist of, in the order of their records."""

from collections.abc import Collection
from shlex import quote
from typing import Any, Final

from headrace_proto.catalog.v1 import GlobalPermissions, StreamPermissions, TopicPermissions


def flags(record: Any, names: Collection[str]) -> dict[str, bool]:
    """Return rights of a record in any form that has an attribute for each."""
    return {name: getattr(record, name) for name in names}


def _rights_of(record: type[GlobalPermissions | StreamPermissions | TopicPermissions]) -> tuple[str, ...]:
    fields = record.DESCRIPTOR.fields
    return tuple(field.name for field in fields if field.type == field.TYPE_BOOL)


GLOBAL_RIGHTS: Final = _rights_of(GlobalPermissions)
STREAM_RIGHTS: Final = _rights_of(StreamPermissions)
TOPIC_RIGHTS: Final = _rights_of(TopicPermissions)


def lacking(username: str, right: str) -> str:
    """Say that a user lacks a right on the whole server, and which command grants it, as the shards say it."""
    name = quote(username)
    return f"{name} lacks {right} on the server: headrace user grant {name} {right}"
