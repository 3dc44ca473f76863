"""Configuration of the job `archive`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import StreamJobConfig
from pyspark_headrace.jobs.tables.config import TableConfig
from pyspark_headrace.jobs.uris import PLACES, place
from pyspark_headrace.options.values import Unsuitable, integer, milliseconds, names, pattern

ICEBERG: Final = "iceberg"
DELTA: Final = "delta"

_LEVELS: Final = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}
_CODECS: Final = ("none", "snappy", "lz4", *_LEVELS)
_ZSTD_LEVEL: Final = 3
"""Spark's default; pyarrow's is 1."""


@dataclass(frozen=True)
class Compression:
    """Compression of Parquet pages."""

    codec: str = "zstd"
    level: int | None = _ZSTD_LEVEL
    """None: default of the codec."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``zstd``, ``zstd:9``, ``snappy`` and the like."""
        codec, colon, level = text.strip().lower().partition(":")
        if codec not in _CODECS:
            raise Unsuitable(f"one of {', '.join(_CODECS)}")
        if not colon:
            return cls(codec, _ZSTD_LEVEL if codec == "zstd" else None)
        allowed = _LEVELS.get(codec)
        if allowed is None:
            raise Unsuitable(f"{codec} alone, which has no levels")
        if not level.isdecimal() or int(level) not in allowed:
            raise Unsuitable(f"{codec} with a level from {allowed[0]} to {allowed[-1]}")
        return cls(codec, int(level))

    def __str__(self) -> str:
        return self.codec if self.level is None else f"{self.codec}:{self.level}"


@dataclass(frozen=True)
class BadRecords:
    """Policy for messages that cannot be decoded."""

    way: str = "fail"
    topic: str | None = None
    """Dead-letter topic, with ``dlq``."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``fail``, ``count`` or ``dlq:TOPIC``."""
        way, _, topic = text.strip().partition(":")
        if text.strip() in {"fail", "count"}:
            return cls(way)
        if way == "dlq" and topic.strip():
            return cls(way, topic.strip())
        raise Unsuitable("fail, count or like dlq:TOPIC")

    def __str__(self) -> str:
        return self.way if self.topic is None else f"{self.way}:{self.topic}"


@dataclass(frozen=True, kw_only=True)
class ArchiveConfig(TableConfig, StreamJobConfig):
    """Arguments of `archive`."""

    topics: tuple[str, ...] | None = argument(parse=names, metavar="A,B", help="topics to archive")
    topics_pattern: str | None = argument(
        parse=pattern,
        metavar="RE",
        help="archive the topics whose whole name matches this regular expression, including topics created later",
    )
    starting_offsets: str = argument(
        default="earliest", choices=("earliest", "latest"), help="start position without a checkpoint"
    )
    dest: str = argument(parse=place, default="", metavar="URI", help=f"location of the table and its files: {PLACES}")
    format: str = argument(default=DELTA, choices=(DELTA, ICEBERG), help="format of the table")
    mode: str = argument(
        default="raw", choices=("raw", "decoded"), help="archive messages as bytes, or decode their values into columns"
    )
    decode: str = argument(default="json", choices=("json",), help="format of the values, with --mode decoded")
    schema: str | None = argument(
        metavar="FILE",
        help="file with the columns of the values, with --mode decoded: Spark DDL such as 'id BIGINT, name STRING', "
        "or a schema in JSON",
    )
    on_bad_record: BadRecords = argument(
        parse=BadRecords.of,
        default=BadRecords(),
        metavar="WHAT",
        help="handling of values that cannot be decoded, with --mode decoded: fail, count, or dlq:TOPIC to send them "
        "to a dead-letter topic",
    )
    partition_by: str = argument(default="date", choices=("date",), help="unit of directories and table partitions")
    target_file_mb: int = argument(
        parse=integer(1, 4096), default=128, metavar="MB", help="size in MiB at which a file is closed"
    )
    max_file_age: int | None = argument(
        parse=milliseconds(1),
        metavar="DURATION",
        help="maximum wait for enough messages to fill a file, with --trigger interval:..., such as 10m",
    )
    compression: Compression = argument(
        parse=Compression.of,
        default=Compression(),
        metavar="CODEC[:LEVEL]",
        help=f"compression of the files: {', '.join(_CODECS)}",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if self.format != ICEBERG and self.is_iceberg:
            raise ArgumentError("--catalog, --catalog-properties and --table are for --format iceberg")
        super().checked()
        self.require("dest", *(("catalog", "table") if self.format == ICEBERG else ()))
        if (self.topics is None) == (self.topics_pattern is None):
            raise ArgumentError("exactly one of --topics and --topics-pattern is needed")
        if self.mode == "decoded":
            self.require("schema")
        elif self.schema is not None or self.on_bad_record != BadRecords():
            raise ArgumentError("--schema and --on-bad-record are for --mode decoded: raw messages are never bad")
        if self.max_file_age is not None and self.trigger.interval_ms is None:
            raise ArgumentError("--max-file-age is for --trigger interval:...: otherwise nothing waits")
        if self.on_bad_record.topic is not None and self._is_archived(self.on_bad_record.topic):
            raise ArgumentError("--on-bad-record: the topic of bad records is among those that are archived")
        return self

    def selection_options(self) -> dict[str, str]:
        """Options of the data source that select the topics."""
        if self.topics is not None:
            return {"subscribe": ",".join(self.topics)}
        return {"subscribePattern": self.topics_pattern or ""}

    def _is_archived(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        return re.fullmatch(self.topics_pattern or "", topic) is not None

    @property
    def target_bytes(self) -> int:
        """Target size of a file."""
        return self.target_file_mb << 20
