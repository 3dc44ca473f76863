"""Messages for archives, and their expected contents."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import xxhash

from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.reading import Part
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Batch, Bounds, TableFile
from pyspark_headrace.jobs.tables.writing import FileOptions, RangeWriter

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


def opened(place: Path | str) -> DeltaLakeTable:
    """Open an archive, and create it if it is missing."""
    return DeltaLakeTable(str(place), RAW_SCHEMA, create=True)


def writer(place: Path | str, end: int, *, key: PartitionKey = KEY, options: FileOptions | None = None) -> RangeWriter:
    return RangeWriter(Store.open(str(place), create=True), key, end, options or FileOptions())


def write(
    place: Path | str, of: Sequence[Message], *, key: PartitionKey = KEY, options: FileOptions | None = None
) -> list[ArchivedFile]:
    """Write messages without committing them."""
    files = writer(place, of[-1].offset + 1, key=key, options=options)
    files.write(batch(of, key.partition))
    return files.close()


def commit(place: Path | str, files: Sequence[ArchivedFile]) -> None:
    """Commit files to an archive, as one micro-batch."""
    table = opened(place)
    ranges: dict[PartitionKey, tuple[int, int]] = {}
    for file in sorted(files, key=lambda one: one.start):
        start, _ = ranges.get(file.key, (file.start, 0))
        ranges[file.key] = (start, file.end)
    assert table.commit(Batch(job="test", query="test", number=table.version, files=files, ranges=ranges))


def listed(file: ArchivedFile) -> TableFile:
    """Return the description of a file as its table has it."""
    return TableFile(
        path=file.path,
        stream=file.stream,
        topic=file.topic,
        date=file.date,
        rows=file.rows,
        bytes=file.bytes,
        partitions=Bounds(file.partition, file.partition),
        offsets=Bounds(file.start, file.end - 1),
        times=Bounds(file.first_timestamp, file.last_timestamp),
    )


def part_of(file: ArchivedFile) -> Part:
    """Return the messages of a file without gaps."""
    return Part(
        key=file.key,
        file=listed(file),
        start=file.start,
        end=file.end,
        first_timestamp=file.first_timestamp,
        last_timestamp=file.last_timestamp,
    )
