"""Reading a range of a topic with one call."""

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
    """Return what is in a topic now as a DataFrame; another call sees what has come since.

    Ranges, partitions and columns are chosen here, not by filters on the DataFrame: those are applied to what was read.

    Args:
        spark: The session.
        servers: gRPC addresses of gateways.
        stream: Name of the stream.
        topic: Name of the topic.
        since: First time, with its offset to UTC.
        until: Time that is not read any more.
        partitions: Which ones; all without.
        columns: Which ones; the usual ones without.
        options: Others of the data source; underscores stand for dots (``tls_ca``).
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
        # A range of time in which nothing has come is empty, not wrong.
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), value)
    return reader.load()
