"""One-call reader for a range of a topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topic(
    spark: SparkSession,
    servers: str,
    stream: str,
    topic: str,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    **options: str,
) -> DataFrame:
    """Return the current contents of a topic as a DataFrame. Another call includes later messages.

    Select ranges, partitions and columns here instead of filtering the DataFrame: filters apply only after the read.

    Args:
        spark: The session.
        servers: gRPC addresses of gateways.
        stream: Name of the stream.
        topic: Name of the topic.
        since: Start time, with its offset to UTC.
        until: End time, exclusive.
        partitions: Partition ids; default: all.
        columns: Columns; default: those of the data source.
        options: Further options of the data source; underscores stand for dots (``tls_ca``).
    """
    reader = spark.read.format("headrace").option("servers", servers).option("stream", stream)
    if partitions is None:
        reader = reader.option("subscribe", topic)
    else:
        reader = reader.option("assign", json.dumps({topic: list(partitions)}))
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    for name, when in (("startingTimestamp", since), ("endingTimestamp", until)):
        if when is not None:
            reader = reader.option(name, when.isoformat() if isinstance(when, datetime) else when)
    if since is not None:
        # A time range without messages is empty, not an error.
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), value)
    return reader.load()
