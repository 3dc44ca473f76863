"""Settings of the metadata service."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Section, Size


class StateSettings(Section):
    """``[system.state]``: how the catalogue survives."""

    enforce_fsync: bool = True
    """Acknowledge a command only when it is on the device. Without, a loss of power may lose the newest
    commands; the death of the process never does."""

    snapshot_commands: Annotated[int, Between(1, 1_000_000)] = 1024
    """Take a snapshot, and shorten the journal, after this many commands."""

    snapshot_journal_size: Annotated[Size, Between(Size(64 * 1024), None)] = Size(16 * 1024 * 1024)
    """Take a snapshot earlier when the journal has grown by this much."""
