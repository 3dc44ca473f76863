"""What messages hold as one number, whatever the pieces are in which they are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from headrace_core import records_digest
from pyspark_headrace.arrays import given

COLUMNS: Final = ("offset", "timestamp", "key", "value")
"""What it is made of."""


def digest(messages: pa.RecordBatch | pa.Table) -> int:
    """Digest messages; the sum of the digests of parts, modulo 2^64, is that of the whole.

    It is the sum over all messages of XXH3-64 of the key (of nothing, where it is null), seeded with the timestamp in
    microseconds plus XXH3-64 of the value, seeded with the offset. It finds accidents, not attacks.

    Args:
        messages: With at least the columns `offset`, `timestamp`, `key` and `value`.

    Raises:
        ValueError: An offset, timestamp or value is null.
    """
    if isinstance(messages, pa.Table):
        return total(digest(batch) for batch in messages.select(COLUMNS).to_batches())
    columns = {name: given(messages.column(name)) for name in COLUMNS}
    return records_digest(messages.num_rows, **columns)


def total(digests: Iterable[int]) -> int:
    """The digest of a whole from those of its parts."""
    return sum(digests) % (1 << 64)
