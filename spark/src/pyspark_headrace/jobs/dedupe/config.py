"""Configuration of the job `dedupe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark_headrace.jobs.records.config import RecordsConfig
from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.options.values import integer, milliseconds, words


@dataclass(frozen=True, kw_only=True)
class DedupeConfig(RecordsConfig):
    """Arguments of `dedupe`."""

    key: str = argument(
        parse=words,
        default="id",
        metavar="id|EXPR,...",
        help="what duplicates have in common: the id of messages, or 'user, day'",
    )
    within: int = argument(
        parse=milliseconds(1),
        required=True,
        metavar="DURATION",
        help="for how long after the first one there are duplicates: 24h",
    )
    event_time: str | None = argument(
        metavar="EXPR", help="when a message was; unless said, when the server appended it"
    )
    to_topic: str | None = argument(metavar="TOPIC", help="where all others go")
    report_only: bool = argument(default=False, help="count duplicates, and write nothing")
    batch: bool = argument(
        default=False, help="compare everything that is there now, exactly, and end; without a checkpoint"
    )
    state_partitions: int | None = argument(
        parse=integer(1, 10_000),
        metavar="COUNT",
        help="parts of the state; as many as cores unless said. The first run decides for all",
    )

    @property
    def goes_on(self) -> bool:
        """Return whether the job continues from a checkpoint. A batch compares all messages anew."""
        return not self.batch

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        super().checked()
        if self.report_only == (self.to_topic is not None):
            raise ArgumentError("exactly one of --to-topic and --report-only is needed")
        if self.to_topic is not None and self.goes_on:
            # Micro-batches are written one by one, under this name.
            self.require("name")
        if self.batch:
            for name in ("checkpoint", "max_offsets_per_trigger", "max_bytes_per_trigger", "state_partitions"):
                if getattr(self, name):
                    raise ArgumentError(f"--{name.replace('_', '-')} is for streams, and not for --batch")
            if self.starting_offsets != "earliest" or not self.trigger.ends:
                raise ArgumentError(
                    "--batch is everything that is there: it has no --starting-offsets and no --trigger"
                )
        return self
