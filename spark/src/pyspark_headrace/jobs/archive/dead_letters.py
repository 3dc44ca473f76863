"""Dead letters: messages that cannot be decoded, written to a topic of their own exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_headrace.jobs.archive.decoding import InvalidValue
from pyspark_headrace.jobs.dead_letter_headers import (
    EMPTY_VALUE,
    HEADER_BYTES,
    HEADERS,
    KEPT_BYTES_MAX,
    OFFSET,
    OURS,
    PARTITION,
    REASON,
    TOO_LARGE,
    TOPIC,
    UNREADABLE,
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


def letters(messages: pa.RecordBatch, bad: Sequence[InvalidValue], split: Split) -> pa.RecordBatch:
    """Convert bad messages to rows for the dead-letter topic: unchanged as far as possible, with the reason in headers.

    Args:
        messages: A batch with `offset`, `key`, `value`, `origin_timestamp` and `headers`.
        bad: Indexes and reasons of the bad rows.
        split: Origin of the messages.
    """
    chosen = messages.take(pa.array([one.row for one in bad], pa.int64()))
    offsets = chosen.column("offset").to_pylist()
    headers = [
        _headers(given, one.reason, split, offset)
        for one, offset, given in zip(bad, offsets, chosen.column("headers").to_pylist(), strict=True)
    ]
    values = chosen.column("value")
    values = pc.if_else(pc.equal(pc.binary_length(values), 0), pa.scalar(EMPTY_VALUE, values.type), values)
    columns = [
        chosen.column("key"),
        values,
        chosen.column("origin_timestamp"),
        pa.array(headers, _SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _headers(given: list[dict[str, Any]] | None, reason: str, split: Split, offset: int) -> list[dict[str, Any]]:
    """Return the headers of a message, None for unreadable ones, with the reason and the origin of the message."""
    kept = [header for header in given or () if header["key"] not in OURS]
    size = sum(len(header["key"].encode()) + len(header["value"]) + HEADER_BYTES for header in kept)
    texts = {
        REASON: reason or "unknown",
        TOPIC: split.topic,
        PARTITION: str(split.partition_id),
        OFFSET: str(offset),
    }
    if given is None:
        texts[HEADERS] = UNREADABLE
    elif size > KEPT_BYTES_MAX:
        kept = []
        texts[HEADERS] = TOO_LARGE
    # Cut between characters, as far as the bytes are text.
    added = [
        {"key": name, "value": text.encode()[:VALUE_BYTES_MAX].decode(errors="ignore").encode()}
        for name, text in texts.items()
    ]
    return [*kept, *added]
