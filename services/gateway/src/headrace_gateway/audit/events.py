"""Events of the audit trail."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Kind = Literal["login", "refusal", "change"]

CHANGES: Final = "changes"
"""Changes of users, permissions, connections and connectors: what administrators do."""
TOPICS: Final = "topics"
"""Changes of streams, topics, partitions and segments."""
OWN: Final = "own"
"""Changes that users make for themselves, without an administrator's permission: access tokens, groups, passwords."""
LOGINS: Final = "logins"
"""Successful logins."""
ACCESS: Final = "access"
"""Failed logins and refusals."""
SERIES: Final = (CHANGES, TOPICS, OWN, LOGINS, ACCESS)
"""File series, by who can cause how many events: a flood of one class does not displace the events of another."""

OWN_ACTIONS: Final = frozenset(
    {"create_access_token", "delete_access_token", "create_consumer_group", "delete_consumer_group"}
)
"""Changes that are always of the series `OWN`."""
TOPIC_ACTIONS: Final = frozenset(
    {
        *("create_stream", "update_stream", "delete_stream", "purge_stream"),
        *("create_topic", "update_topic", "delete_topic", "purge_topic", "set_topic_quota"),
        *("create_partitions", "delete_partitions", "delete_segments", "delete_transaction"),
    }
)
"""Changes of the series `TOPICS`, for some of which the permission to manage one topic suffices."""

OK: Final = "ok"
BEGUN: Final = "begun"
"""Result of a change whose outcome is unknown because the server died before answering."""

_CHARACTERS_MAX: Final = 256


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One event: one line of the trail."""

    id: str
    """Event id, shared by the begin and the end event of a change."""
    at: int
    """Microseconds since the Unix epoch."""
    event: Kind
    action: str
    """Name of the command, or login method."""
    result: str
    """``ok``, ``begun``, or the name of the status."""
    user_id: int | None = None
    username: str | None = None
    """Name of the acting user, or the name given in a login attempt."""
    address: str = ""
    transport: str = ""
    client_id: int = 0
    """Client id of the connection; 0: no connection."""
    gateway: str = ""
    """Name of the gateway that recorded the event."""
    subject: dict[str, Any] = {}
    """Object of the action: fields of the request without secrets."""
    suppressed: int = 0
    """Number of events of the same kind that the rate limit suppressed since the last one written."""

    @property
    def series(self) -> str:
        """Name of the file series that holds the event."""
        if self.event != "change":
            return LOGINS if self.event == "login" and self.result == OK else ACCESS
        if self.action in TOPIC_ACTIONS:
            return TOPICS
        is_own = self.action in OWN_ACTIONS or (
            self.action == "change_password" and self.subject.get("user_id", 0) == self.user_id
        )
        return OWN if is_own else CHANGES


def recordable(text: str) -> str:
    """Return a header of a request as text of an event: bytes that are not UTF-8 are escaped, and the end is cut."""
    return text[:_CHARACTERS_MAX].encode(errors="backslashreplace").decode()[:_CHARACTERS_MAX]


def encoded(event: Event) -> bytes:
    """Return the event as a line, including the line end.

    Raises:
        UnicodeEncodeError: A text contains surrogates; see `recordable`.
        TypeError: The subject contains a value that JSON does not have.
    """
    return msgspec.json.encode(event) + b"\n"


def decoded(line: bytes) -> Event | None:
    """Return the event of a line; None if the line is damaged."""
    try:
        return msgspec.json.decode(line, type=Event)
    except msgspec.MsgspecError:
        return None
