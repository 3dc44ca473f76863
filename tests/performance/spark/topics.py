"""Topics with distinct text values that compress slightly."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace_core import EncodedBatch, InputArray, RecordEncoder
from headrace_partition_node.grpc.shard_requests import SEND_MESSAGES, send_metadata
from headrace_partition_node.grpc.tickets import Here
from tests.compatibility.protocol.raw import RawConnection
from tests.performance.loads.load import STREAM
from tests.performance.workbench import FilesRemain, connect, stored_bytes
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    import numpy as np

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BLOCK_BYTES = 10_000_000
_BATCH_BYTES = 1 << 20
_DELETED_WITHIN_SECONDS = 60.0
_EMPTY_BYTES = 1_000_000


@contextmanager
def filled(server: ServerProcess, topic: str, *, rows: int, value_bytes: int, partitions: int = 1) -> Generator[None]:
    """Create and fill a topic for the duration of a ``with`` block; its files are deleted afterwards.

    Args:
        server: Server of the topic.
        topic: Name of the topic.
        rows: Number of messages in all partitions.
        value_bytes: Size of each value.
        partitions: Number of partitions, which have equally many messages.
    """
    create(server, topic, partitions)
    fill(server, topic, rows=rows, value_bytes=value_bytes, partitions=partitions)
    yield
    client = connect(server)
    client.delete_stream(STREAM)
    client.close()
    deadline = time.monotonic() + _DELETED_WITHIN_SECONDS
    while stored_bytes(server.data) > _EMPTY_BYTES:
        if time.monotonic() > deadline:
            raise FilesRemain(f"{stored_bytes(server.data)} bytes in {server.data}")
        time.sleep(0.05)


def create(server: ServerProcess, topic: str, partitions: int) -> None:
    """Create a topic, and its stream if missing."""
    client = connect(server)
    if STREAM not in {stream.name for stream in client.streams()}:
        client.create_stream(STREAM)
    client.create_topic(STREAM, topic, partitions)
    client.close()


def fill(server: ServerProcess, topic: str, *, rows: int, value_bytes: int, partitions: int = 1) -> None:
    """Append `rows` messages to all partitions together."""
    import numpy as np

    client = connect(server)
    (stream_id,) = (found.id for found in client.streams() if found.name == STREAM)
    (topic_id,) = (found.id for found in client.topics(STREAM) if found.name == topic)
    client.close()
    random = np.random.default_rng(value_bytes)
    with RawConnection.as_root(server.address) as connection:
        for partition in range(partitions):
            here = Here(stream_id=stream_id, topic_id=topic_id, partition_id=partition, incarnation=0, purge_epoch=0)
            for batch in _batches(random, rows // partitions, value_bytes):
                connection.ok(SEND_MESSAGES, send_metadata(here, batch.messages_count) + batch.batch)


def _batches(random: np.random.Generator, rows: int, value_bytes: int) -> Iterable[EncodedBatch]:
    import numpy as np
    import pyarrow as pa

    letters = np.frombuffer(_ALPHABET, np.uint8)
    encoder = RecordEncoder(
        partitions_count=1,
        partition_by_key=False,
        first_partition=0,
        batch_bytes=_BATCH_BYTES,
        origin_timestamp_micros=time.time_ns() // 1000,
    )
    while rows:
        count = min(rows, max(1, _BLOCK_BYTES // value_bytes))
        rows -= count
        values: Any = letters[random.integers(0, len(letters), count * value_bytes, np.uint8)]
        offsets: Any = np.arange(count + 1, dtype=np.int32) * value_bytes
        yield from encoder.push(count, value=InputArray("binary", [None, pa.py_buffer(offsets), pa.py_buffer(values)]))
    yield from encoder.finish()
