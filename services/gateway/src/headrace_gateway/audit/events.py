"""Events of the audit trail."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Kind = Literal["login", "refusal", "change"]

CHANGES: Final = "changes"
ACCESS: Final = "access"
SERIES: Final = (CHANGES, ACCESS)
"""File series. They are separate so that events of unauthenticated clients cannot displace recorded changes."""

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
        return CHANGES if self.event == "change" else ACCESS


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
