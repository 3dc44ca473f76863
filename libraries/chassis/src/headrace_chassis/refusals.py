"""Classification of statuses, for APIs with fewer error codes."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from headrace_proto.errors import Origin, Status, find


class Kind(Enum):
    """Kind of a refusal, by the remedy."""

    UNAUTHENTICATED = auto()
    """Remedy: log in."""
    FORBIDDEN = auto()
    """Remedy: ask for the permission."""
    NOT_FOUND = auto()
    """Remedy: name an existing object."""
    EXISTS = auto()
    """Remedy: choose another name."""
    EXHAUSTED = auto()
    """Remedy: wait, or free resources."""
    UNAVAILABLE = auto()
    """Remedy: retry."""
    FAILED = auto()
    """Internal error of the server; the client has no remedy."""
    INVALID = auto()
    """Remedy: correct the request."""


_KINDS: Final = {
    Status.UNAUTHENTICATED: Kind.UNAUTHENTICATED,
    Status.INVALID_CREDENTIALS: Kind.UNAUTHENTICATED,
    Status.INVALID_PERSONAL_ACCESS_TOKEN: Kind.UNAUTHENTICATED,
    Status.PERSONAL_ACCESS_TOKEN_EXPIRED: Kind.UNAUTHENTICATED,
    Status.ACCESS_TOKEN_MISSING: Kind.UNAUTHENTICATED,
    Status.INVALID_ACCESS_TOKEN: Kind.UNAUTHENTICATED,
    Status.INVALID_TICKET: Kind.UNAUTHENTICATED,
    Status.UNAUTHORIZED: Kind.FORBIDDEN,
    Status.USER_INACTIVE: Kind.FORBIDDEN,
    Status.RESOURCE_NOT_FOUND: Kind.NOT_FOUND,
    Status.CLIENT_NOT_FOUND: Kind.NOT_FOUND,
    Status.STREAM_ID_NOT_FOUND: Kind.NOT_FOUND,
    Status.TOPIC_ID_NOT_FOUND: Kind.NOT_FOUND,
    Status.PARTITION_NOT_FOUND: Kind.NOT_FOUND,
    Status.CONSUMER_OFFSET_NOT_FOUND: Kind.NOT_FOUND,
    Status.SEGMENT_NOT_FOUND: Kind.NOT_FOUND,
    Status.CONSUMER_GROUP_ID_NOT_FOUND: Kind.NOT_FOUND,
    Status.CONSUMER_GROUP_NAME_NOT_FOUND: Kind.NOT_FOUND,
    Status.CONSUMER_GROUP_MEMBER_NOT_FOUND: Kind.NOT_FOUND,
    Status.STAGE_NOT_FOUND: Kind.NOT_FOUND,
    Status.USER_ALREADY_EXISTS: Kind.EXISTS,
    Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS: Kind.EXISTS,
    Status.STREAM_NAME_ALREADY_EXISTS: Kind.EXISTS,
    Status.TOPIC_NAME_ALREADY_EXISTS: Kind.EXISTS,
    Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS: Kind.EXISTS,
    Status.USERS_LIMIT_REACHED: Kind.EXHAUSTED,
    Status.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED: Kind.EXHAUSTED,
    Status.TOPIC_FULL: Kind.EXHAUSTED,
    Status.TOO_MANY_LOGIN_ATTEMPTS: Kind.EXHAUSTED,
    Status.TOO_MANY_STAGES: Kind.EXHAUSTED,
    Status.TOO_MANY_TRANSACTIONS: Kind.EXHAUSTED,
    Status.TOO_MANY_PINS: Kind.EXHAUSTED,
    Status.TOO_MANY_CONSUMER_GROUPS: Kind.EXHAUSTED,
    Status.TOO_MANY_CHANGES: Kind.EXHAUSTED,
    Status.OUTCOME_UNKNOWN: Kind.UNAVAILABLE,
    Status.ERROR: Kind.FAILED,
}


def kind_of(status: int) -> Kind:
    """Return the kind of a status."""
    info = find(status)
    if info is None:
        return Kind.FAILED
    if info.status in _KINDS:
        return _KINDS[info.status]
    if info.retryable:
        return Kind.UNAVAILABLE
    return Kind.FAILED if info.origin is Origin.WIRE_INTERNAL else Kind.INVALID
