"""Configuration of the job `aggregate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark_headrace.jobs.records.config import RecordsConfig
from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.options.values import Unsuitable, integer, milliseconds, words

_milliseconds = milliseconds(1)


@dataclass(frozen=True)
class Window:
    """Time window, in milliseconds."""

    length_ms: int
    slide_ms: int
    """Time between the starts of two windows."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``1m``, or ``10m,1m`` for overlapping windows."""
        length, comma, slide = text.partition(",")
        found = cls(_milliseconds(length), _milliseconds(slide if comma else length))
        if found.slide_ms > found.length_ms:
            raise Unsuitable("a length like 1m, or a length and a shorter time from one to the next like 10m,1m")
        return found

    @property
    def sql(self) -> str:
        """SQL expression of the window of the column `_time`."""
        return f"window(_time, '{self.length_ms} milliseconds', '{self.slide_ms} milliseconds')"


@dataclass(frozen=True, kw_only=True)
class AggregateConfig(RecordsConfig):
    """Arguments of `aggregate`."""

    key: str = argument(
        required=True,
        parse=words,
        metavar="EXPR,...",
        help="expressions to group by, such as 'carrier' or 'upper(c) AS carrier, origin'",
    )
    window: Window = argument(
        parse=Window.of,
        required=True,
        metavar="LENGTH[,SLIDE]",
        help="length of the time windows, such as 1m; 10m,1m for overlapping windows",
    )
    agg: str = argument(
        required=True,
        parse=words,
        metavar="EXPR,...",
        help="aggregates to compute, such as 'count(*) AS n, sum(x) AS total'",
    )
    event_time: str | None = argument(
        metavar="EXPR", help="expression for the event time (time at which the server appended the message)"
    )
    watermark: int = argument(
        parse=milliseconds(0),
        required=True,
        metavar="DURATION",
        help="maximum delay of late messages, such as 30s",
    )
    to_topic: str = argument(required=True, metavar="TOPIC", help="topic to write the aggregates to")
    output: str = argument(
        default="append",
        choices=("append", "update"),
        help="append: write the aggregates of a window once, after it has ended; update: whenever they change, so "
        "that the last message of a key is valid",
    )
    dlq: str | None = argument(
        metavar="TOPIC",
        help="dead-letter topic for invalid messages, with the reason in headers; without it, an invalid message ends "
        "the job",
    )
    state_partitions: int | None = argument(
        parse=integer(1, 10_000),
        metavar="COUNT",
        help="number of state partitions, fixed by the first run (number of cores)",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        super().checked()
        if self.output == "update":
            # Micro-batches are written one by one, under this name.
            self.require("name")
        if self.dlq == self.to_topic:
            raise ArgumentError("--dlq and --to-topic are the same topic")
        return self
