"""Options of writing, in batches and in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from headrace_proto.limits import STAGE_LIFETIME_SECONDS_MAX
from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import option, parse
from pyspark_headrace.options.values import Unsuitable, choice, integer, milliseconds, names, size, truth, words

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
BATCH_NAMES: Final = "pyspark_headrace.batch-"
"""Prefix of the transactional ids of batches."""

_NAME_BYTES_MAX: Final = 255
_STAGE_MS_MAX: Final = STAGE_LIFETIME_SECONDS_MAX * 1000
_OF_TRANSACTIONS: Final = ("transactionalId", "onCheckpointReset", "batchId")
_OF_NEW_TOPICS: Final = ("partitions", "retention")
_OF_EXACTLY_ONCE: Final = (*_OF_TRANSACTIONS, "stageLifetime")
_OF_SPARK: Final = ("checkpointlocation", "queryname")
"""Options that Spark adds to those of a sink."""


def _name(text: str) -> str:
    if not 0 < len(text.encode()) <= _NAME_BYTES_MAX or text.startswith(BATCH_NAMES):
        raise Unsuitable(f"a name of 1 to {_NAME_BYTES_MAX} bytes that does not begin with {BATCH_NAMES}")
    return text


@dataclass(frozen=True, kw_only=True)
class WriteOptions(ConnectionOptions):
    """Options of a write: topics, guarantee, batching."""

    stream: str = option("stream", words, required=True)
    """Name of the stream."""
    topic: str | None = option("topic", words)
    """Name of the only topic. Alternative to `topics`:"""
    topics: tuple[str, ...] | None = option("topics", names)
    """Names of topics, one of which the column `topic` selects for each row."""
    guarantee: str = option("guarantee", choice(EXACTLY_ONCE, AT_LEAST_ONCE), AT_LEAST_ONCE)
    """Delivery guarantee. Streams have another default."""
    transactional_id: str | None = option("transactionalId", _name)
    """Name under which the server records the committed batches of a query. Default: the query id."""
    batch_id: int | None = option("batchId", integer(0))
    """Number of the batch under that name, for writes that are no micro-batch: the batch id passed to ``foreachBatch``.
    """
    on_checkpoint_reset: str = option("onCheckpointReset", choice("fail", "fence"), "fail")
    """Reaction of a query that finds commits of another query under its name."""
    stage_lifetime_ms: int = option("stageLifetime", milliseconds(1000, _STAGE_MS_MAX), 24 * 3_600_000)
    """Time after staging within which a batch can be committed."""
    partitioner: str = option("partitioner", choice("key", "column"), "key")
    """Partitioner: `key` hashes the key and uses round robin without one; `column` takes the column `partition`."""
    include_headers: bool = option("includeHeaders", truth, default=False)
    """Take the column `headers`."""
    create_topic: bool = option("createTopic", truth, default=False)
    """Create missing topics."""
    partitions: int = option("partitions", integer(1, 1000), 1)
    """Number of partitions of a created topic."""
    retention_ms: int | None = option("retention", milliseconds(1000))
    """Retention time of a created topic. Default: that of the server."""
    batch_bytes: int = option("batchBytes", size(1024, 8 << 20), 1 << 20)
    """Number of bytes in an appended batch."""
    max_in_flight: int = option("maxInFlight", integer(1, 100), 8)
    """Maximum number of unacknowledged batches of a task."""
    append_timeout_ms: int = option("appendTimeoutMs", milliseconds(1), 120_000)
    """Maximum time to wait for an acknowledgement."""

    def checked(self) -> Self:
        """Validate combinations of options.

        Raises:
            OptionError: Options contradict each other.
        """
        if (self.topic is None) == (self.topics is None):
            raise OptionError("of topic and topics one is required, and only one is possible")
        return super().checked()

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Names of all topics that rows may be written to."""
        return self.topics if self.topic is None and self.topics is not None else (self.topic or "",)

    @property
    def is_exact(self) -> bool:
        """Return whether each row is written exactly once."""
        return self.guarantee == EXACTLY_ONCE


def write_options(given: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """Parse the options of a sink.

    Args:
        given: Option texts by case-insensitive name.
        is_stream: The sink writes micro-batches.

    Raises:
        OptionError: An option is unknown, missing or invalid, or options contradict each other.
    """
    default = EXACTLY_ONCE if is_stream else AT_LEAST_ONCE
    options = parse(WriteOptions, {"guarantee": default} | dict(given), ignored=_OF_SPARK).checked()
    named = {name.lower() for name in given}
    for name in _OF_NEW_TOPICS:
        if name in named and not options.create_topic:
            raise OptionError(f"option {name} is for createTopic = true: a topic keeps what it has")
    if is_stream and options.batch_id is not None:
        raise OptionError("option batchId is for batches: those of a stream have numbers already")
    for name in _OF_EXACTLY_ONCE:
        if name.lower() in named and not options.is_exact:
            raise OptionError(f"option {name} is for guarantee = {EXACTLY_ONCE}")
    if not is_stream and (options.transactional_id is None) != (options.batch_id is None):
        raise OptionError("transactionalId and batchId belong together: without both a batch is for itself")
    if not is_stream and "oncheckpointreset" in named and options.batch_id is None:
        raise OptionError("option onCheckpointReset is for streams, and for batches with a transactionalId")
    return options
