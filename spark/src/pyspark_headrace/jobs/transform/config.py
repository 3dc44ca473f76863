"""Configuration of the job `transform`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyspark_headrace.jobs.records.config import JSON, RAW, RecordsConfig
from pyspark_headrace.jobs.running.arguments import ArgumentError, argument


@dataclass(frozen=True, kw_only=True)
class TransformConfig(RecordsConfig):
    """Arguments of `transform`."""

    decode: str = argument(default=JSON, choices=(JSON, RAW), help="format of the values: JSON objects, or raw bytes")
    sql: str | None = argument(metavar="FILE", help="file with the SQL query, which selects from `input`")
    sql_text: str | None = argument(metavar="QUERY", help="text of the SQL query, in place of --sql")
    to_topic: str = argument(required=True, metavar="TOPIC", help="topic to write the rows to")
    dlq: str | None = argument(
        metavar="TOPIC",
        help="dead-letter topic for invalid messages, with the reason in headers; without it, an invalid message ends "
        "the job",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        super().checked()
        if (self.sql is None) == (self.sql_text is None):
            raise ArgumentError("exactly one of --sql and --sql-text is needed")
        if self.dlq == self.to_topic:
            raise ArgumentError("--dlq and --to-topic are the same topic")
        return self

    @property
    def sql_flag(self) -> str:
        """Name of the argument with the query."""
        return f"--sql {self.sql}" if self.sql is not None else "--sql-text"

    def query_text(self) -> str:
        """Text of the query.

        Raises:
            ArgumentError: The file cannot be read.
        """
        if self.sql_text is not None:
            return self.sql_text
        try:
            return Path(self.sql or "").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{self.sql_flag}: {error}") from error
