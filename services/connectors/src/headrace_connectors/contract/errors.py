"""Exceptions that a plugin raises, and that the runtime understands.

ConnectorError: the connector cannot go on until something is changed
    InvalidRecord: one record is the reason; the others may go on without it
    StateVersionMismatch: the stored state is of another version of the plugin
    Unavailable: the other side does not answer now; the runtime tries again
"""

from __future__ import annotations

from typing import ClassVar


class ConnectorError(Exception):
    """The connector cannot go on. The text says what is wrong, and what to do."""

    code: ClassVar[str] = "failed"
    """Stable name for programs: in the status, in logs and in dead letters."""


class InvalidRecord(ConnectorError):
    """A record cannot be converted or written, now or later."""

    code: ClassVar[str] = "invalid_record"

    def __init__(self, text: str, *, index: int | None = None) -> None:
        super().__init__(text)
        self.index = index
        """Number of the record in its batch, if known."""


class StateVersionMismatch(ConnectorError):
    """The stored state has another version than this plugin reads."""

    code: ClassVar[str] = "state_version_mismatch"

    def __init__(self, seen: int, expected: int) -> None:
        super().__init__(
            f"the stored state has version {seen}, this plugin reads version {expected}: use the release that wrote "
            "it, or remove the state deliberately and start over"
        )
        self.seen = seen
        self.expected = expected


class Unavailable(ConnectorError):
    """The other side cannot be used now: not reached, busy, or shutting down. The runtime tries again."""

    code: ClassVar[str] = "unavailable"

    def __init__(self, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        """Shortest pause before the next attempt, in seconds, if the other side has said so."""
