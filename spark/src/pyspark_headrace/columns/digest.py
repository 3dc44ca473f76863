"""Digest of messages that does not depend on how they are split into pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from headrace_core import records_digest
from pyspark_headrace.columns.arrays import given

COLUMNS: Final = ("offset", "timestamp", "key", "value")
"""Columns that the digest covers."""


def digest(messages: pa.RecordBatch | pa.Table) -> int:
    """Digest messages. The sum of the digests of parts, modulo 2^64, is the digest of the whole.

    The digest is the sum over all messages of XXH3-64 of the key (empty for null), seeded with the timestamp in
    microseconds, plus XXH3-64 of the value, seeded with the offset. The digest detects accidents, not attacks.

    Args:
        messages: Messages with at least the columns `offset`, `timestamp`, `key` and `value`.

    Raises:
        ValueError: An offset, timestamp or value is null.
    """
    if isinstance(messages, pa.Table):
        return total(digest(batch) for batch in messages.select(COLUMNS).to_batches())
    columns = {name: given(messages.column(name)) for name in COLUMNS}
    return records_digest(messages.num_rows, **columns)


def total(digests: Iterable[int]) -> int:
    """Combine the digests of parts into the digest of the whole."""
    return sum(digests) % (1 << 64)
