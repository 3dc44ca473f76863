"""Conversion of messages for a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_headrace.errors import HeadraceError

SOURCE: Final = "x-replay-source"
"""Header with the origin of the message, like ``topic:shop/orders/3``."""
OFFSET: Final = "x-replay-offset"
"""Header with the original offset, in decimal."""
JOB: Final = "x-replay-job"
"""Header with the name of the job."""
_HEADERS: Final = (SOURCE, OFFSET, JOB)
_VALUE_BYTES_MAX: Final = 255
"""Maximum size of a header value."""

PRESERVED: Final = ("key", "headers", "timestamp", "id")
"""Parts of messages that may be preserved in addition to the value."""


class EncryptedHeadersError(HeadraceError):
    """Encrypted headers of a message cannot be read, so they cannot be preserved."""


@dataclass(frozen=True)
class Rewriting:
    """Conversion of messages of one source."""

    source: str
    """Value of the header `SOURCE`, without the partition."""
    job: str
    preserve: frozenset[str]
    same_partition: bool

    def columns(self) -> list[str]:
        """Columns to read."""
        columns = ["offset", "value"]
        if "timestamp" in self.preserve:
            columns += ["timestamp", "origin_timestamp"]
        return columns + [name for name in ("key", "id", "headers") if name in self.preserve]

    def apply(self, batch: pa.RecordBatch, partition_id: int) -> pa.RecordBatch:
        """Convert messages to rows for the sink.

        Args:
            batch: Messages with these columns.
            partition_id: Original partition.

        Raises:
            EncryptedHeadersError: Headers to be preserved are encrypted.
        """
        columns: dict[str, pa.Array] = {"value": batch.column("value")}
        columns |= {name: batch.column(name) for name in ("key", "id") if name in self.preserve}
        if "timestamp" in self.preserve:
            # Without a producer timestamp, keep the time at which the server first received the message.
            columns["origin_timestamp"] = pc.coalesce(batch.column("origin_timestamp"), batch.column("timestamp"))
        headers = batch.column("headers") if "headers" in self.preserve else None
        title = f"{self.source}/{partition_id}"
        columns["headers"] = with_origin(headers, batch.column("offset"), title, self.job)
        if self.same_partition:
            columns["partition"] = pa.repeat(pa.scalar(partition_id, pa.int32()), batch.num_rows)
        return pa.RecordBatch.from_pydict(columns)


def with_origin(headers: pa.ListArray | None, offsets: pa.Int64Array, source: str, job: str) -> pa.ListArray:
    """Add origin headers to messages, replacing those of an earlier backfill.

    Args:
        headers: Headers of each message; None: no messages have any.
        offsets: Offset of each message.
        source: Origin of all messages.
        job: Name of the job.

    Raises:
        EncryptedHeadersError: Headers cannot be read.
    """
    count = len(offsets)
    keys, values, owners = _kept(headers, offsets, source)
    added = len(_HEADERS)
    ends = np.cumsum(np.bincount(owners, minlength=count) + added, dtype=np.int32) if count else np.zeros(0, np.int32)
    total = len(keys)
    # Indexes into the concatenation of preserved headers, headers common to all messages, and offsets.
    at_key = np.empty(total + added * count, np.int64)
    at_value = np.empty_like(at_key)
    kept_at = np.arange(total) + added * owners
    at_key[kept_at] = at_value[kept_at] = np.arange(total)
    for place, (of_key, of_value) in enumerate(((0, 0), (1, 2), (2, 1))):
        at = ends - added + place
        at_key[at] = total + of_key
        at_value[at] = total + of_value + (np.arange(count) if place == 1 else 0)
    texts = offsets.cast(pa.string()).cast(pa.binary())
    all_keys = pa.concat_arrays([keys, pa.array(_HEADERS, pa.string())])
    all_values = pa.concat_arrays([values, pa.array([source.encode(), job.encode()], pa.binary()), texts])
    pairs = pa.StructArray.from_arrays([all_keys.take(at_key), all_values.take(at_value)], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(np.concatenate([np.zeros(1, np.int32), ends])), pairs)


def _kept(
    headers: pa.ListArray | None, offsets: pa.Int64Array, source: str
) -> tuple[pa.StringArray, pa.BinaryArray, np.ndarray]:
    """Return keys, values and row indexes of the headers to keep."""
    if headers is None:
        return pa.array([], pa.string()), pa.array([], pa.binary()), np.zeros(0, np.int64)
    if headers.null_count:
        row = int(np.argmax(pc.is_null(headers).to_numpy(zero_copy_only=False)))
        raise EncryptedHeadersError(
            f"{source}, offset {offsets[row].as_py()}: the headers cannot be read, since their producer has encrypted "
            "them. Without headers in --preserve the message is written with none of them"
        )
    pairs = headers.flatten()
    keys, values = pairs.field("key"), pairs.field("value")
    owners = np.repeat(np.arange(len(headers)), headers.value_lengths().to_numpy(zero_copy_only=False))
    ours = pc.is_in(keys, pa.array(_HEADERS, pa.string()))
    if pc.any(ours).as_py():
        stays = pc.invert(ours)
        owners = owners[stays.to_numpy(zero_copy_only=False)]
        keys, values = keys.filter(stays), values.filter(stays)
    return keys, values, owners


def too_long(source: str) -> str | None:
    """Return an error message if the source exceeds the size of a header value."""
    size = len(source.encode())
    return f"{source} has {size} bytes, and {SOURCE} can have {_VALUE_BYTES_MAX}" if size > _VALUE_BYTES_MAX else None
