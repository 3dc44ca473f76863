"""Configuration of the job `audit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.tables.config import TableConfig
from pyspark_headrace.jobs.uris import place
from pyspark_headrace.options.values import Unsuitable, moment, names, pattern, size

GAPS: Final = "gaps"
ORDER: Final = "order"
CHECKSUM: Final = "checksum"
DUP_ID: Final = "dup-id"
RETENTION: Final = "retention"
ARCHIVE: Final = "archive"
NULL_KEY: Final = "null-key"
SIZE: Final = "size"
CHECKS: Final = (GAPS, ORDER, CHECKSUM, DUP_ID, RETENTION, ARCHIVE, NULL_KEY, SIZE)
_USUAL: Final = CHECKS[:6]
"""Default checks. The others report conditions that are legitimate in some deployments."""


def _checks(text: str) -> frozenset[str]:
    found = frozenset(names(text))
    if not found <= set(CHECKS):
        raise Unsuitable(f"some of {', '.join(CHECKS)}")
    return found


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value <= 1.0:
        raise Unsuitable("more than 0, and 1 at most")
    return value


@dataclass(frozen=True, kw_only=True)
class AuditConfig(TableConfig):
    """Arguments of `audit`."""

    needs_servers: ClassVar[bool] = False

    topics: tuple[str, ...] | None = argument(parse=names, metavar="A,B", help="topics to check")
    topics_pattern: str | None = argument(
        parse=pattern, metavar="RE", help="check the topics whose whole name matches this regular expression"
    )
    checks: frozenset[str] = argument(
        parse=_checks,
        default=frozenset(_USUAL),
        metavar="A,B",
        help=f"checks to run: {', '.join(CHECKS)} (all but the last two)",
    )
    since: int | None = argument(
        parse=moment,
        metavar="TIME",
        help="skip messages before this time, such as 2026-11-21T00:00:00Z or milliseconds since 1970",
    )
    sample: float = argument(
        parse=_fraction,
        default=1.0,
        metavar="FRACTION",
        help="fraction of ranges, files and ids to check; the sample is the same in each run",
    )
    archive: str | None = argument(
        parse=place, metavar="URI", help="archive to check, and to compare with the topics if any are given"
    )
    out: str | None = argument(parse=place, metavar="URI", help="directory for findings and ranges as JSON lines")
    size_limit: int = argument(
        parse=size(1),
        default=1 << 20,
        metavar="SIZE",
        help="size above which the check `size` reports a value, such as 512k",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if self.servers:
            self.require("stream")
            if (self.topics is None) == (self.topics_pattern is None):
                raise ArgumentError("exactly one of --topics and --topics-pattern is needed")
        elif self.archive is None:
            raise ArgumentError("--servers or --archive is needed")
        elif self.topics is not None and self.topics_pattern is not None:
            raise ArgumentError("--topics and --topics-pattern are not possible together")
        if self.archive is None and self.is_iceberg:
            raise ArgumentError("--catalog and --table are for --archive")
        return super().checked()

    @property
    def reads_archive(self) -> bool:
        """Return whether files are checked."""
        return self.archive is not None and ARCHIVE in self.checks

    def subscription(self) -> dict[str, str]:
        """Options of the source for a batch of the selected topics."""
        given = self.source_options()
        if self.topics is not None:
            given["subscribe"] = ",".join(self.topics)
        if self.topics_pattern is not None:
            given["subscribePattern"] = self.topics_pattern
        if self.since is not None:
            given["startingTimestamp"] = str(self.since // 1000)
            given["startingOffsetsByTimestampStrategy"] = "latest"
        return given
