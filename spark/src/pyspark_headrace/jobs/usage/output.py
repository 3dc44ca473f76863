"""Output of usage: a file per tenant, and a topic."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.jobs.tables.files import escaped
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.usage.rows import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET: Final = "parquet"
JSON: Final = "json"

_SCHEMA: Final = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("start", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("granularity", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("quantity", pa.int64(), nullable=False),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("id", pa.binary(16), nullable=False),
    ]
)


def path_of(period: str, granularity: str, tenant: str, kind: str) -> str:
    """Return the path of a tenant's file, relative to the output location."""
    return f"{period}-{granularity}/{escaped(tenant)}.{kind}"


def content_of(rows: Sequence[Row], kind: str) -> bytes:
    """Return the contents of a file: the same bytes for the same rows."""
    if kind == JSON:
        return "".join(f"{text_of(row)}\n" for row in rows).encode()
    columns: dict[str, list[Any]] = {
        "tenant": [row.tenant for row in rows],
        "stream": [row.stream for row in rows],
        "topic": [row.topic for row in rows],
        "start": [row.start_micros for row in rows],
        "granularity": [row.granularity for row in rows],
        "kind": [row.kind for row in rows],
        "quantity": [row.quantity for row in rows],
        "complete": [row.is_complete for row in rows],
        "id": [row.id for row in rows],
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema=_SCHEMA), sink, compression="zstd")
    return sink.getvalue()


def text_of(row: Row) -> str:
    """Encode a row as one line of JSON."""
    return json.dumps(
        {
            "tenant": row.tenant,
            "stream": row.stream,
            "topic": row.topic,
            "start": row.start,
            "granularity": row.granularity,
            "kind": row.kind,
            "quantity": row.quantity,
            "complete": row.is_complete,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def write_file(store: Store, path: str, content: bytes) -> None:
    """Write a file, replacing an existing one.

    Raises:
        StoreError: The file cannot be written.
    """
    output = store.output(path)
    output.write(content)
    output.close()


def send(spark: SparkSession, rows: Sequence[Row], options: dict[str, str]) -> None:
    """Write rows to a topic atomically. A repeated row has the same id.

    Raises:
        pyspark.errors.PySparkException: The rows cannot be written.
    """
    messages = [(row.tenant.encode(), text_of(row).encode(), row.id) for row in rows]
    frame = spark.createDataFrame(messages, "key BINARY, value BINARY, id BINARY").coalesce(1)
    frame.write.format("headrace").mode("append").options(**options, guarantee="exactly-once").save()
