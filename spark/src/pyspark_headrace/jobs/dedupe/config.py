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
        help="key that duplicates have in common: the message id, or expressions such as 'user, day'",
    )
    within: int = argument(
        parse=milliseconds(1),
        required=True,
        metavar="DURATION",
        help="time after the first message within which equal keys are duplicates, such as 24h",
    )
    event_time: str | None = argument(
        metavar="EXPR", help="expression for the event time (time at which the server appended the message)"
    )
    to_topic: str | None = argument(metavar="TOPIC", help="topic to write messages to that are not duplicates")
    report_only: bool = argument(default=False, help="count duplicates without writing messages")
    batch: bool = argument(default=False, help="compare all existing messages exactly, without a checkpoint, then exit")
    state_partitions: int | None = argument(
        parse=integer(1, 10_000),
        metavar="COUNT",
        help="number of state partitions, fixed by the first run (number of cores)",
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
