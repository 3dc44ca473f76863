"""The audit trail in the data directory of a server or gateway, which may be running."""

from __future__ import annotations

from pathlib import Path

from headrace_embedded.errors import EmbeddedError
from headrace_gateway.audit.audit_log import DIRECTORY
from headrace_gateway.audit.events import SERIES, Event, decoded, encoded
from headrace_gateway.audit.files import numbered
from headrace_gateway.audit.reading import AuditFilter, read

__all__ = ["AuditFilter", "Event", "NoTrail", "decoded", "encoded", "read_directory"]


class NoTrail(EmbeddedError):
    """The data directory contains no audit trail."""


def read_directory(data: Path, criteria: AuditFilter, count_max: int) -> list[Event]:
    """Return the newest events that match, newest first.

    Args:
        data: Data directory.
        criteria: Filter.
        count_max: Maximum number of events.

    Raises:
        NoTrail: The directory contains no files of a trail.
    """
    directory = data.expanduser() / DIRECTORY
    if not any(numbered(directory, series) for series in SERIES):
        raise NoTrail(f"{directory} contains no audit trail")
    return read(directory, criteria, count_max)
