"""Messages that would become much larger when they are decoded, in a running sink."""

from __future__ import annotations

import pyarrow as pa

import headrace
from tests.connectors.process import Connectors, until
from tests.connectors.test_flood import resident_bytes

GROWTH_BYTES_MAX = 200 * 2**20


def stream_of(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_a_small_message_that_becomes_large_goes_to_the_dead_letters(
    client: headrace.Client, connectors: Connectors, stream: str
) -> None:
    """Regression: 1,560 bytes took 1.1 GB, and `/health` waited for 12 s."""
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=1)
    connectors.run(f'[sinks.a]\nplugin = "stdout"\nstream = "{stream}"\ntopic = "t"\ncodec = "arrow"\n')
    connectors.becomes("a", "running")
    before = resident_bytes(connectors.pid)
    rows = 5_000_000
    zeros = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(bytes(8 * rows))])
    with client.producer(stream, "t") as producer:
        for batch in (pa.record_batch({"n": zeros}), pa.record_batch({"n": [7]})):
            producer.send(stream_of(batch))
    until(lambda: '"n":7' in connectors.tail() or '"n": 7' in connectors.tail())
    [dead] = client.read(stream, "t-dead", count=10)
    assert len(dead.payload) < 20_000
    assert resident_bytes(connectors.pid) - before < GROWTH_BYTES_MAX
