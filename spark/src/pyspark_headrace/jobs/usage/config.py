"""Configuration of the job `usage`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.tables.config import TableConfig
from pyspark_headrace.jobs.uris import place
from pyspark_headrace.jobs.usage.output import JSON, PARQUET
from pyspark_headrace.jobs.usage.period import Period
from pyspark_headrace.jobs.usage.rows import DAILY, HOURLY
from pyspark_headrace.options.values import Unsuitable, moment, names, words

TOPICS = "topics"
_ARCHIVE = "archive:"


def _origin(text: str) -> str:
    is_archive = text.startswith(_ARCHIVE) and bool(text.removeprefix(_ARCHIVE).strip())
    if text != TOPICS and not is_archive:
        raise Unsuitable("topics or archive:URI")
    if is_archive:
        place(text.removeprefix(_ARCHIVE))
    return text


@dataclass(frozen=True, kw_only=True)
class UsageConfig(TableConfig):
    """Sources, period and outputs of the measurement."""

    needs_servers: ClassVar[bool] = False

    origin: str = argument(
        "--from", parse=_origin, required=True, metavar="SOURCE", help="source of the counts: topics, or archive:URI"
    )
    streams: tuple[str, ...] | None = argument(
        parse=names,
        metavar="NAME,...",
        help="streams to count (all that the user may read, or that the archive contains)",
    )
    period: Period = argument(
        parse=Period.of,
        required=True,
        metavar="PERIOD",
        help="month or day to count in UTC, such as 2026-11 or 2026-11-21",
    )
    until: int | None = argument(
        parse=moment,
        metavar="TIME",
        help="count messages before this time, which must be in the past (end of the last full hour)",
    )
    granularity: str = argument(default=HOURLY, choices=(HOURLY, DAILY), help="time span of each row")
    tenants: Path | None = argument(
        parse=Path,
        metavar="FILE",
        help="TOML or JSON file that assigns topics to tenants; without it, each stream is a tenant",
    )
    out: str | None = argument(parse=place, metavar="URI", help="directory for output files, one per tenant")
    format: str = argument(default=PARQUET, choices=(PARQUET, JSON), help="format of the output files")
    to_topic: str | None = argument(
        parse=words, metavar="NAME", help="topic of --stream to write to, with one message per row"
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if self.origin == TOPICS:
            self.require("servers")
            if self.is_iceberg:
                raise ArgumentError("--catalog and --table are for archives")
        if self.to_topic is not None:
            self.require("servers", "stream")
        if self.out is None and self.to_topic is None and not self.dry_run:
            raise ArgumentError("--out or --to-topic is needed")
        return super().checked()

    @property
    def archive(self) -> str | None:
        """URI of the archive, if the source is one."""
        return None if self.origin == TOPICS else self.origin.removeprefix(_ARCHIVE)
