"""Columns of messages, for code with and without archives.

Imports nothing that only archives need.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
RAW_SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _TIMESTAMP, nullable=False),
        pa.field("origin_timestamp", _TIMESTAMP),
        pa.field("id", pa.binary(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
        pa.field("partition", pa.int32(), nullable=False),
    ]
)
"""Schema of raw messages. Stream, topic and date are in the path."""
RAW_COLUMNS: Final = tuple(RAW_SCHEMA.names)
