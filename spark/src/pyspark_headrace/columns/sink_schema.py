"""Columns of rows to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark_headrace.errors import SchemaError
from pyspark_headrace.options.writing import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BYTES: Final = ("binary", "string")
TAKEN: Final = {
    "value": _BYTES,
    "key": _BYTES,
    "id": ("binary",),
    "origin_timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
"""Accepted columns and their types."""

PASSED_OVER: Final = ("stream", "topic", "offset", "timestamp")
"""Ignored columns of messages that were read: the server assigns new values."""


def taken(names: list[str], options: WriteOptions) -> list[str]:
    """Return the columns that become part of messages."""
    without = {"headers"} if not options.include_headers else set()
    if options.partitioner != "column":
        without.add("partition")
    return [name for name in names if name in TAKEN and name not in without]


def check_rows(schema: StructType, options: WriteOptions) -> None:
    """Validate the columns of rows to write.

    Raises:
        SchemaError: Rows with these columns cannot be messages.
    """
    kinds = {field.name: field.dataType.simpleString().replace(" ", "") for field in schema.fields}
    for name, kind in kinds.items():
        if name in PASSED_OVER:
            continue
        if name not in TAKEN:
            raise SchemaError(
                f"column {name} is not a part of a message: there are {', '.join(TAKEN)}; "
                f"{', '.join(PASSED_OVER)} are ignored"
            )
        if kind not in TAKEN[name]:
            raise SchemaError(f"column {name} is {kind}; it has to be {' or '.join(TAKEN[name])}")
    if options.topics is not None and kinds.get("topic") != "string":
        raise SchemaError("option topics needs a column topic, a string that names one of them in each row")
    if "value" not in kinds:
        raise SchemaError("there is no column value, which contains the payloads of messages")
    if options.partitioner == "column" and "partition" not in kinds:
        raise SchemaError("partitioner = column needs a column partition")
    if options.include_headers and "headers" not in kinds:
        raise SchemaError("includeHeaders = true needs a column headers")
