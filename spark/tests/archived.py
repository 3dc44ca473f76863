"""Messages for archives, and their expected contents."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import xxhash

from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey, date_of
from pyspark_headrace.jobs.tables.writing import FileOptions

KEY = PartitionKey("shop", "orders", 0, "17", "3.0")
NOON = int(datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC).timestamp()) * 1_000_000


class Message(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes


def messages(start: int, count: int, *, at: int = NOON, step: int = 1000, size: int = 20) -> list[Message]:
    return [
        Message(offset, at + step * index, b"k%d" % (offset % 7) if offset % 3 else None, b"%0*d" % (size, offset))
        for index, offset in enumerate(range(start, start + count))
    ]


def batch(of: Sequence[Message], partition: int = 0) -> pa.RecordBatch:
    columns = {
        "offset": [message.offset for message in of],
        "timestamp": [message.timestamp for message in of],
        "origin_timestamp": [None] * len(of),
        "id": [message.offset.to_bytes(16, "big") for message in of],
        "key": [message.key for message in of],
        "value": [message.value for message in of],
        "headers": [[{"key": "n", "value": b"%d" % message.offset}] for message in of],
        "partition": [partition] * len(of),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name], field.type) for field in RAW_SCHEMA], schema=RAW_SCHEMA
    )


def digest_of(of: Iterable[Message]) -> int:
    """Independent implementation of the digest."""
    total = 0
    for offset, timestamp, key, value in of:
        inner = xxhash.xxh3_64(value, seed=offset).intdigest() + timestamp
        total += xxhash.xxh3_64(key if key is not None else b"", seed=inner & 0xFFFF_FFFF_FFFF_FFFF).intdigest()
    return total & 0xFFFF_FFFF_FFFF_FFFF


def write(
    archive: Archive, of: Sequence[Message], *, key: PartitionKey = KEY, options: FileOptions | None = None
) -> list[ArchivedFile]:
    """Write messages without committing them."""
    writer = archive.writer(key, of[-1].offset + 1, options)
    writer.write(batch(of, key.partition))
    return writer.close()


def described(start: int, end: int, *, key: PartitionKey = KEY, token: int = 0, at: int = NOON) -> ArchivedFile:
    """Describe a file that does not exist, for tests of the log alone."""
    path = (
        f"stream={key.stream}/topic={key.topic}/date={date_of(at)}/p{key.partition}-{start}-{end}-{token:012x}.parquet"
    )
    return ArchivedFile(
        path=path,
        stream=key.stream,
        topic=key.topic,
        partition=key.partition,
        start=start,
        end=end,
        rows=end - start,
        bytes=(end - start) * 10,
        incarnation=key.incarnation,
        generation=key.generation,
        first_timestamp=at,
        last_timestamp=at,
        digest=end * 31 + start,
        date=date_of(at),
    )
