"""Encodings of Parquet columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_RISING: Final = ("offset", "timestamp", "origin_timestamp")
"""Columns with small differences between rows: delta encoding takes a tenth of the space."""
_SAMPLE_ROWS: Final = 4096
_REPEATED: Final = 0.5
"""Maximum ratio of distinct values to rows for a dictionary. Above it, writers build a dictionary and then drop it."""


def encoding(first: pa.Table, *, use_dictionary: bool | None) -> dict[str, Any]:
    """Choose encodings.

    Args:
        first: First rows of a file.
        use_dictionary: For all columns or for none; None: for columns whose first values repeat.

    Returns:
        Arguments for `pyarrow.parquet.ParquetWriter`.
    """
    if use_dictionary is not None:
        return {"use_dictionary": use_dictionary}
    sample = first.slice(0, _SAMPLE_ROWS)
    chosen = [
        path
        for field in first.schema
        if field.name not in _RISING
        for path, values in _leaves(field.name, sample.column(field.name).combine_chunks())
        if _repeats(values)
    ]
    rising = {name: "DELTA_BINARY_PACKED" for name in _RISING if name in first.schema.names}
    return {"use_dictionary": chosen, "column_encoding": rising}


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaf columns with their Parquet names."""
    if pa.types.is_struct(values.type):
        for index, field in enumerate(values.type):
            yield from _leaves(f"{path}.{field.name}", values.field(index))
    elif pa.types.is_list(values.type):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _repeats(values: pa.Array) -> bool:
    there = len(values) - values.null_count
    return bool(there == 0 or pc.count_distinct(values).as_py() <= max(there * _REPEATED, 1))
