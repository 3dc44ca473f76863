"""Names of the rights that permissions consist of, in the order of their records."""

from collections.abc import Collection
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
