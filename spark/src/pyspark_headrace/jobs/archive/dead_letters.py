"""Dead letters: messages that cannot be decoded, written to a topic of their own exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyspark_headrace.jobs.archive.decoding import Bad
from pyspark_headrace.jobs.dead_letter_headers import (
    HEADER_BYTES,
    KEPT_BYTES_MAX,
    OFFSET,
    OURS,
    PARTITION,
    REASON,
    TOPIC,
    VALUE_BYTES_MAX,
)
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.read.splits import Split
from pyspark_headrace.transactions.staged import Staged, Transaction
from pyspark_headrace.transactions.staging import Attempt, stage
from pyspark_headrace.write.target import Targets

_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("origin_timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)


@dataclass(frozen=True)
class DeadLetters:
    """Destination and transaction of dead letters."""

    targets: Targets
    options: WriteOptions
    transaction: Transaction

    def stage(self, rows: Iterator[pa.RecordBatch], attempt: Attempt) -> Staged:
        """Stage dead letters. They become visible when the driver commits the micro-batch."""
        return stage(rows, self.targets, self.options, self.transaction, attempt)


def letters(messages: pa.RecordBatch, bad: Sequence[Bad], split: Split) -> pa.RecordBatch:
    """Convert bad messages to rows for the dead-letter topic: unchanged, with the reason in headers.

    Args:
        messages: A batch with `offset`, `key`, `value`, `origin_timestamp` and `headers`.
        bad: Indexes and reasons of the bad rows.
        split: Origin of the messages.
    """
    chosen = messages.take(pa.array([one.row for one in bad], pa.int64()))
    offsets = chosen.column("offset").to_pylist()
    headers = [
        [*_kept(given), *_added(one.reason, split, offset)]
        for one, offset, given in zip(bad, offsets, chosen.column("headers").to_pylist(), strict=True)
    ]
    columns = [chosen.column(name) for name in ("key", "value", "origin_timestamp")]
    return pa.RecordBatch.from_arrays([*columns, pa.array(headers, _SCHEMA.field("headers").type)], schema=_SCHEMA)


def _kept(given: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    kept = [header for header in given or () if header["key"] not in OURS]
    size = sum(len(header["key"].encode()) + len(header["value"]) + HEADER_BYTES for header in kept)
    return kept if size <= KEPT_BYTES_MAX else []


def _added(reason: str, split: Split, offset: int) -> list[dict[str, Any]]:
    texts = {
        REASON: reason or "unknown",
        TOPIC: split.topic,
        PARTITION: str(split.partition_id),
        OFFSET: str(offset),
    }
    # Cut between characters, as far as the bytes are text.
    return [
        {"key": name, "value": text.encode()[:VALUE_BYTES_MAX].decode(errors="ignore").encode()}
        for name, text in texts.items()
    ]
