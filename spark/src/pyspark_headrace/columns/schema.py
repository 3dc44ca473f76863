"""Columns of the source, with their Spark and Arrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark_headrace.errors import OptionError, SchemaError
from pyspark_headrace.options.reading import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS: Final = {
    "stream": "STRING",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "origin_timestamp": "TIMESTAMP",
    "id": "BINARY",
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""All columns of a message."""

DEFAULT_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
"""Columns read by default. Each additional column costs time, constant texts the most."""

RANGE_COLUMNS: Final = {
    "stream": "STRING",
    "topic": "STRING",
    "partition": "INT",
    "start": "BIGINT",
    "end": "BIGINT",
    "incarnation": "STRING",
    "bytes": "BIGINT",
    "split": "BINARY",
}
"""Columns with ``emit = ranges``. `split` must be requested with a schema, because it holds the ticket for the range.
"""

DEFAULT_RANGE_COLUMNS: Final = tuple(name for name in RANGE_COLUMNS if name != "split")

_MAY_BE_MISSING: Final = ("origin_timestamp", "key", "headers")


def ddl(options: ReadOptions) -> str:
    """Return the schema for these options, as DDL.

    Raises:
        OptionError: `columns` names an unknown column.
    """
    return ", ".join(f"{name} {kind}" for name, kind in selected(options).items())


def selected(options: ReadOptions) -> dict[str, str]:
    """Return the columns for these options, with their types.

    Raises:
        OptionError: `columns` names an unknown column.
    """
    if options.emit == "ranges":
        return {name: RANGE_COLUMNS[name] for name in DEFAULT_RANGE_COLUMNS}
    columns = list(options.columns or DEFAULT_COLUMNS)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise OptionError(f"option columns: there is no column {', '.join(unknown)}; there are {', '.join(COLUMNS)}")
    if options.include_headers and "headers" not in columns:
        columns.append("headers")
    return {name: COLUMNS[name] for name in columns}


def check(schema: StructType, options: ReadOptions) -> None:
    """Validate a schema requested by the user.

    Raises:
        SchemaError: The schema is not a selection of the available columns.
        OptionError: `columns` names other columns.
    """
    known = RANGE_COLUMNS if options.emit == "ranges" else COLUMNS
    expected = (
        f"the schema is a selection, in any order, of {', '.join(f'{name} {kind}' for name, kind in known.items())}"
    )
    for field in schema.fields:
        if _plain(field.dataType.simpleString()) != _plain(known.get(field.name, "nothing")):
            raise SchemaError(f"there is no column {field.name} {field.dataType.simpleString()}: {expected}")
        if not field.nullable and field.name in _MAY_BE_MISSING:
            raise SchemaError(f"column {field.name} is NULL where a message has none: it cannot be NOT NULL")
    named = [field.name for field in schema.fields]
    if not named or len(set(named)) < len(named):
        raise SchemaError(f"there are no columns, or one of them twice: {expected}")
    if options.columns is not None and named != list(options.columns):
        raise OptionError("option columns and the schema name different columns: one of them is enough")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark compares batches with."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - slow, and needed where data is

    return to_arrow_schema(schema, timezone="UTC")


def _plain(kind: str) -> str:
    return kind.lower().replace(" ", "")
