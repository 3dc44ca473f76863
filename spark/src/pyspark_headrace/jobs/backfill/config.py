"""Configuration of the job `backfill`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark_headrace.jobs.backfill.messages import PRESERVED
from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.tables.config import TableConfig
from pyspark_headrace.jobs.uris import place
from pyspark_headrace.options.values import OFFSET_MAX, Unsuitable, integer, moment, names, words
from pyspark_headrace.options.writing import AT_LEAST_ONCE, EXACTLY_ONCE

SAME: Final = "same"
BY_KEY: Final = "key"

_RATE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([km]?)/s", re.IGNORECASE)
_TIMES: Final = {"": 1, "k": 1000, "m": 1_000_000}
_BATCH_MESSAGES: Final = 1_000_000
_BATCH_SECONDS: Final = 2.0
"""Duration of a batch under a rate limit. The messages of a batch become visible at once."""
_NAME_BYTES_MAX: Final = 200
_USUAL: Final = frozenset({"key", "headers", "timestamp"})

Bounds = dict[int, tuple[int, int | None]]
"""Start and end offset of partitions (exclusive; None: the current end)."""


@dataclass(frozen=True)
class From:
    """Source of the messages."""

    kind: str
    """``archive`` or ``topic``."""
    where: str
    """URI of the archive, or name of the topic."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``archive:URI`` or ``topic:NAME``."""
        kind, colon, where = text.partition(":")
        if kind not in {"archive", "topic"} or not colon or not where.strip():
            raise Unsuitable("archive:URI or topic:NAME")
        return cls(kind, place(where) if kind == "archive" else where)

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}"


def rate(text: str) -> float:
    """Parse a rate in messages per second, like ``50000/s`` or ``50k/s``."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise Unsuitable("a rate like 50000/s or 50k/s")
    return float(found[1]) * _TIMES[found[2].lower()]


def preserved(text: str) -> frozenset[str]:
    """Parse the parts of messages to preserve in addition to their values."""
    found = frozenset() if text.strip() == "none" else frozenset(names(text))
    if not found <= set(PRESERVED):
        raise Unsuitable(f"some of {', '.join(PRESERVED)} with commas, or none")
    return found


def bounds(text: str) -> Bounds:
    """Parse ``{"0": [100, 500], "1": [0, null]}``."""
    expected = 'JSON like {"0": [100, 500], "1": [0, null]}: first offset, and the one to end before, of each partition'
    try:
        value = json.loads(text)
    except ValueError:
        raise Unsuitable(expected) from None
    if not isinstance(value, dict) or not value:
        raise Unsuitable(expected)
    found: Bounds = {}
    for number, pair in value.items():
        if not re.fullmatch(r"0|[1-9]\d{0,8}", number) or not isinstance(pair, list) or len(pair) != 2:
            raise Unsuitable(expected)
        start, end = pair
        if not _is_offset(start) or not (end is None or (_is_offset(end) and end >= start)):
            raise Unsuitable(expected)
        found[int(number)] = (start, end)
    return found


def _is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value <= OFFSET_MAX


@dataclass(frozen=True, kw_only=True)
class BackfillConfig(TableConfig):
    """Source, target and options of a backfill."""

    origin: From = argument(
        "--from",
        parse=From.of,
        required=True,
        metavar="SOURCE",
        help="source of the messages to replay: archive:URI or topic:NAME",
    )
    from_stream: str | None = argument(
        parse=words, metavar="NAME", help="stream of the topic to replay, if it differs from --stream"
    )
    from_topic: str | None = argument(
        parse=words, metavar="NAME", help="topic to replay, for an archive with several topics"
    )
    to_topic: str = argument(parse=words, required=True, metavar="NAME", help="topic to write to")
    create_topic: bool = argument(
        default=False, help="create the topic if it does not exist, with the partition count of the source"
    )
    since: int | None = argument(
        parse=moment,
        metavar="TIME",
        help="replay messages that the server appended at this time or later: ISO 8601, or milliseconds since 1970",
    )
    until: int | None = argument(
        parse=moment, metavar="TIME", help="replay messages that the server appended before this time"
    )
    offsets: Bounds | None = argument(
        parse=bounds,
        metavar="JSON",
        help='offset ranges by partition, in place of times: {"0": [100, 500]}; ends are exclusive, null is the '
        "current end",
    )
    preserve: frozenset[str] | None = argument(
        parse=preserved,
        metavar="PARTS",
        help="parts to keep besides the value: some of key, headers, timestamp and id, or none (key,headers,timestamp)",
    )
    partitioning: str = argument(
        default=SAME,
        choices=(SAME, BY_KEY),
        help="partitioning of the output; same: keep partition and order; key: by the hash of the key",
    )
    rate: float | None = argument(
        parse=rate, metavar="RATE", help="limit in messages per second, such as 50000/s; without it, there is no limit"
    )
    guarantee: str = argument(
        default=EXACTLY_ONCE, choices=(EXACTLY_ONCE, AT_LEAST_ONCE), help="delivery guarantee if the job fails"
    )
    checkpoint: str = argument(
        parse=place, default="", metavar="URI", help="directory of the plan and progress; each backfill needs its own"
    )
    resume: bool = argument(default=False, help="resume after the last committed batch, or start if there is none")
    batch_messages: int | None = argument(
        parse=integer(1, 100_000_000),
        metavar="COUNT",
        help="maximum number of messages in a batch (1000000, or two seconds' worth at --rate)",
    )

    def checked(self) -> Self:
        """Validate combinations of arguments."""
        if not self.dry_run:
            self.require("name", "checkpoint")
        if len(self.name.encode()) > _NAME_BYTES_MAX:
            raise ArgumentError(f"--name has {_NAME_BYTES_MAX} bytes at most")
        if self.offsets is not None and (self.since is not None or self.until is not None):
            raise ArgumentError("--offsets or --since and --until, not both")
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ArgumentError("--since is after --until")
        if self.origin.kind == "topic":
            if self.from_topic is not None or self.is_iceberg:
                raise ArgumentError("--from-topic, --catalog and --table are for archives")
            if (self.from_stream or self.stream, self.origin.where) == (self.stream, self.to_topic):
                raise ArgumentError("--to-topic is the topic that is replayed")
        return super().checked()

    @property
    def preserves(self) -> frozenset[str]:
        """Parts of messages that are preserved in addition to the value."""
        return _USUAL if self.preserve is None else self.preserve

    @property
    def messages_per_batch(self) -> int:
        """Maximum number of messages in a batch."""
        if self.batch_messages is not None:
            return self.batch_messages
        if self.rate is not None:
            return max(min(round(self.rate * _BATCH_SECONDS), _BATCH_MESSAGES), 1)
        return _BATCH_MESSAGES

    def asked(self) -> dict[str, Any]:
        """Arguments that determine the output, as stored with a plan."""
        return {
            "from": str(self.origin),
            "from_stream": self.from_stream,
            "from_topic": self.from_topic,
            "table": self.table,
            "stream": self.stream,
            "to_topic": self.to_topic,
            "name": self.name,
            "since": self.since,
            "until": self.until,
            "offsets": None
            if self.offsets is None
            else {str(number): list(pair) for number, pair in sorted(self.offsets.items())},
            "preserve": sorted(self.preserves),
            "partitioning": self.partitioning,
            "guarantee": self.guarantee,
        }
