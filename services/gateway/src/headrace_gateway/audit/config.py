"""Settings of the audit trail."""

from __future__ import annotations

from typing import Annotated

from headrace_settings import Between, Section, Size


class AuditConfig(Section):
    """`audit`: who logged in, who was refused, who changed what."""

    enabled: bool = True
    """Whether the trail is written."""

    max_file_size: Annotated[Size, Between(Size.parse("4 KiB"), Size.parse("1 GiB"))] = Size.parse("8 MiB")
    """A file of the trail that has this size is followed by another one."""

    max_files: Annotated[int, Between(2, 10_000)] = 16
    """How many files there are of each kind at most: changes, and logins with refusals. The oldest goes."""
