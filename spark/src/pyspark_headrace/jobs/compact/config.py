"""Configuration of the job `compact`."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import JobConfig
from pyspark_headrace.jobs.uris import PLACES, place
from pyspark_headrace.options.values import integer, milliseconds

NEVER: Final = datetime.timedelta.max


def _duration(text: str) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds(0)(text))


def _duration_or_never(text: str) -> datetime.timedelta:
    return NEVER if text.strip() == "never" else _duration(text)


@dataclass(frozen=True, kw_only=True)
class CompactConfig(JobConfig):
    """Arguments of `compact`."""

    needs_servers: ClassVar[bool] = False

    dest: str = argument(parse=place, required=True, metavar="URI", help=f"location of the Delta Lake table: {PLACES}")
    target_file_mb: int = argument(
        parse=integer(1, 4096), default=256, metavar="MB", help="approximate size of merged files in MiB"
    )
    min_files: int = argument(
        parse=integer(2, 1_000_000),
        default=8,
        metavar="COUNT",
        help="minimum number of small files to merge per day of a topic",
    )
    older_than: datetime.timedelta = argument(
        parse=_duration,
        default=datetime.timedelta(hours=1),
        metavar="DURATION",
        help="minimum age of the newest message of a file to merge",
    )
    expire: datetime.timedelta | None = argument(
        parse=_duration, metavar="DURATION", help="remove files whose messages are all older than this, such as 30d"
    )
    remove_orphans_older_than: datetime.timedelta = argument(
        parse=_duration_or_never,
        default=datetime.timedelta(hours=24),
        metavar="DURATION",
        help="minimum age of unreferenced files to delete, or never; must exceed the duration of any micro-batch and "
        "reader",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        limit = self.remove_orphans_older_than
        if limit != NEVER and limit % datetime.timedelta(hours=1):
            raise ArgumentError("--remove-orphans-older-than: Delta Lake counts in hours")
        return super().checked()

    @property
    def target_bytes(self) -> int:
        """Target size of a file."""
        return self.target_file_mb << 20
