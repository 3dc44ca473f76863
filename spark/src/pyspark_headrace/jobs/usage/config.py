"""Configuration of the job `usage`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import JobConfig
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
class UsageConfig(JobConfig):
    """Sources, period and outputs of the measurement."""

    needs_servers: ClassVar[bool] = False

    origin: str = argument(
        "--from", parse=_origin, required=True, metavar="SOURCE", help="topics: the log itself; or archive:URI"
    )
    streams: tuple[str, ...] | None = argument(
        parse=names, metavar="NAME,...", help="count these; unless said, all that the user may see or the archive has"
    )
    period: Period = argument(
        parse=Period.of, required=True, metavar="PERIOD", help="a month like 2026-11, or a day like 2026-11-21; UTC"
    )
    until: int | None = argument(
        parse=moment,
        metavar="TIME",
        help="count what came before, in the past; unless said, to the end of the last hour that is over",
    )
    granularity: str = argument(default=HOURLY, choices=(HOURLY, DAILY), help="what is added up in one row")
    tenants: Path | None = argument(
        parse=Path, metavar="FILE", help="whose topics are whose, TOML or JSON; without, every stream is a tenant"
    )
    out: str | None = argument(parse=place, metavar="URI", help="folder for a file for each tenant")
    format: str = argument(default=PARQUET, choices=(PARQUET, JSON), help="of these files")
    to_topic: str | None = argument(parse=words, metavar="NAME", help="topic of --stream for a message for each row")

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if self.origin == TOPICS:
            self.require("servers")
        if self.to_topic is not None:
            self.require("servers", "stream")
        if self.out is None and self.to_topic is None and not self.dry_run:
            raise ArgumentError("--out or --to-topic is needed")
        return super().checked()

    @property
    def archive(self) -> str | None:
        """URI of the archive, if the source is one."""
        return None if self.origin == TOPICS else self.origin.removeprefix(_ARCHIVE)
