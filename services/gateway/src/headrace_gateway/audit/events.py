"""What stands in the trail."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Kind = Literal["login", "refusal", "change"]

CHANGES: Final = "changes"
ACCESS: Final = "access"
SERIES: Final = (CHANGES, ACCESS)
"""The files apart: whatever strangers do, it does not push out what was changed."""

BEGUN: Final = "begun"
"""The result of a change of which it is not known what came of it: the server has died before it was answered."""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line."""

    id: str
    """The same for a change that begins and its end."""
    at: int
    """Microseconds since the Unix epoch."""
    event: Kind
    action: str
    """Name of the command, or how somebody logged in."""
    result: str
    """``ok``, ``begun``, or the name of the status."""
    user_id: int | None = None
    username: str | None = None
    """Of the user who has acted, or as whom somebody tried to log in."""
    address: str = ""
    transport: str = ""
    client_id: int = 0
    """Of the connection; 0: it has none."""
    gateway: str = ""
    """Where it happened."""
    subject: dict[str, Any] = {}
    """What it is about."""
    suppressed: int = 0
    """How many events of its kind were not written since the last that was: there were too many."""

    @property
    def series(self) -> str:
        """In which files it is."""
        return CHANGES if self.event == "change" else ACCESS


def encoded(event: Event) -> bytes:
    """Return the line of an event, with its end."""
    return msgspec.json.encode(event) + b"\n"


def decoded(line: bytes) -> Event | None:
    """Return the event of a line; None: it is damaged."""
    try:
        return msgspec.json.decode(line, type=Event)
    except msgspec.MsgspecError:
        return None
