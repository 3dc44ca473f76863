"""Configuration common to jobs from topic to topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import StreamJobConfig
from pyspark_headrace.options.values import names

JSON = "json"
RAW = "raw"


@dataclass(frozen=True, kw_only=True)
class RecordsConfig(StreamJobConfig):
    """Selection of messages, and schema of their values."""

    topics: tuple[str, ...] = argument(parse=names, required=True, metavar="A,B", help="topics to read")
    starting_offsets: str = argument(
        default="earliest", choices=("earliest", "latest"), help="start position without a checkpoint"
    )
    decode: str = argument(default=RAW, choices=(JSON, RAW), help="format of the values: JSON objects, or raw bytes")
    schema: str | None = argument(
        metavar="FILE",
        help="file with the columns of the JSON objects: Spark DDL such as 'id BIGINT NOT NULL, name STRING', or a "
        "schema in JSON",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        super().checked()
        if self.decode == JSON:
            self.require("schema")
        elif self.schema is not None:
            raise ArgumentError("--schema is for --decode json")
        for name in ("to_topic", "dlq"):
            if getattr(self, name, None) in self.topics:
                raise ArgumentError(f"--{name.replace('_', '-')}: this topic is one of those that are read")
        return self

    def reading(self) -> dict[str, str]:
        """Options of the data source that select messages and columns."""
        return {"subscribe": ",".join(self.topics), "startingOffsets": self.starting_offsets}

    def writing(self, *topics: str | None) -> dict[str, str]:
        """Options of the data source for writing exactly once.

        Rows have a column `topic`. The job name is the transactional id.
        """
        return self.sink_options(*(topic for topic in topics if topic)) | {"includeHeaders": "true"}
