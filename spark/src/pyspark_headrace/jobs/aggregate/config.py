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
        help="what figures are of: 'carrier' or 'upper(c) AS carrier, origin'",
    )
    window: Window = argument(
        parse=Window.of,
        required=True,
        metavar="LENGTH[,SLIDE]",
        help="spans of time: 1m, or 10m,1m for overlapping ones",
    )
    agg: str = argument(
        required=True, parse=words, metavar="EXPR,...", help="the figures: 'count(*) AS n, sum(x) AS total'"
    )
    event_time: str | None = argument(
        metavar="EXPR", help="when a message was; unless said, when the server appended it"
    )
    watermark: int = argument(
        parse=milliseconds(0),
        required=True,
        metavar="DURATION",
        help="how much later than others a message may come: 30s",
    )
    to_topic: str = argument(required=True, metavar="TOPIC", help="where figures go")
    output: str = argument(
        default="append",
        choices=("append", "update"),
        help="figures of a window once, when it is over; or whenever they change, the last ones with a key being right",
    )
    dlq: str | None = argument(
        metavar="TOPIC", help="where bad messages go, with the reason in headers; without, the first one ends the job"
    )
    state_partitions: int | None = argument(
        parse=integer(1, 10_000),
        metavar="COUNT",
        help="parts of the state; as many as cores unless said. The first run decides for all",
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
