"""The audit trail in the data folder of a server or gateway, which may be running."""

from __future__ import annotations

from pathlib import Path

from headrace.embedded.errors import EmbeddedError
from headrace_gateway.audit.events import SERIES, Event, decoded, encoded
from headrace_gateway.audit.files import numbered
from headrace_gateway.audit.reading import Wanted, read
from headrace_gateway.audit.trail import FOLDER

__all__ = ["Event", "NoTrail", "Wanted", "decoded", "encoded", "read_folder"]


class NoTrail(EmbeddedError):
    """There is no audit trail in the folder."""


def read_folder(data: Path, wanted: Wanted, count_max: int) -> list[Event]:
    """Return the newest events that are wanted, newest first.

    Args:
        data: The data folder.
        wanted: Which.
        count_max: At most so many.

    Raises:
        NoTrail: There are no files of a trail.
    """
    folder = data.expanduser() / FOLDER
    if not any(numbered(folder, series) for series in SERIES):
        raise NoTrail(f"{folder} holds no audit trail")
    return read(folder, wanted, count_max)
