"""Decoder of JSON values into columns, with detection of bad values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from pyspark_headrace.jobs.dead_letter_headers import EMPTY

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FAILURES: Final = (pa.ArrowException, ValueError)
_BLOCK_BYTES: Final = 1 << 30
"""Block size of the parser, larger than any batch: several blocks would result in several chunks."""


class InvalidValue(NamedTuple):
    """A value that does not match the schema."""

    row: int
    reason: str


@dataclass(frozen=True)
class Decoding:
    """Target columns of values: each value is a JSON object with these members."""

    schema: pa.Schema

    def decode(self, values: pa.Array) -> tuple[pa.StructArray, list[InvalidValue]]:
        """Decode values.

        Members that are not in the schema are ignored, and missing members are NULL. Numbers have to fit their type.
        Strings are converted to times, dates, decimals and binary values only.

        Args:
            values: Values of a batch, `binary`.

        Returns:
            The decoded values, in order, and the bad ones.
        """
        try:
            return self._all(values), []
        except _FAILURES:
            rows, bad = _objects(values)
        decoded = self._parts(values.take(pa.array(rows, pa.int64())), rows, bad)
        return pa.concat_arrays([pa.array([], self.kind), *decoded]), sorted(bad)

    @property
    def kind(self) -> pa.DataType:
        """Arrow type of the decoded values."""
        return pa.struct(list(self.schema))

    def _parts(self, values: pa.Array, rows: list[int], bad: list[InvalidValue]) -> list[pa.StructArray]:
        """Bisect values that cannot be decoded until a single bad value is found."""
        if not rows:
            return []
        try:
            return [self._all(values)]
        except _FAILURES as error:
            if len(rows) == 1:
                bad.append(InvalidValue(rows[0], _said(error)))
                return []
        half = len(rows) // 2
        return [
            *self._parts(values.slice(0, half), rows[:half], bad),
            *self._parts(values.slice(half), rows[half:], bad),
        ]

    def _all(self, values: pa.Array) -> pa.StructArray:
        # The parser does not check that strings are valid Unicode.
        trimmed = pc.utf8_trim(values.cast(pa.string()), characters=" \t\r\n")
        if not pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py():
            raise ValueError("it is not a JSON object")
        # Each value starts and ends like an object. If the number of objects equals the number of values, each value is
        # one object: two values cannot form one, because a closing brace within an object is never followed by an
        # opening one.
        whole = pa.ListArray.from_arrays(pa.array([0, len(trimmed)], pa.int32()), trimmed)
        lines = pc.binary_join(whole, "\n")[0].as_buffer()
        table = pa.json.read_json(
            pa.BufferReader(lines),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pa.json.ParseOptions(
                explicit_schema=pa.schema([_parsed(field) for field in self.schema]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        ).combine_chunks()
        if table.num_rows != len(values):
            raise ValueError("it is more than one JSON object")
        columns = [table.column(field.name).combine_chunks().cast(field.type) for field in self.schema]
        for field, column in zip(self.schema, columns, strict=True):
            if not field.nullable and column.null_count:
                raise ValueError(f"it has no {field.name}")
        return pa.StructArray.from_arrays(columns, fields=list(self.schema))


def _objects(values: pa.Array) -> tuple[list[int], list[InvalidValue]]:
    """Separate JSON objects from other values with a cheap check, since bisecting many bad values is expensive.

    The parser rejects every value that this check rejects, in any batch. So the result does not depend on batches.
    """
    rows: list[int] = []
    bad: list[InvalidValue] = []
    for row, value in enumerate(values.to_pylist()):
        if not value:
            bad.append(InvalidValue(row, EMPTY))
            continue
        try:
            found = json.loads(value.decode())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            bad.append(InvalidValue(row, str(error)))
        except (ValueError, RecursionError):
            # Python cannot parse the value (too large or too deep). The parser decides.
            rows.append(row)
        else:
            if isinstance(found, dict):
                rows.append(row)
            else:
                bad.append(InvalidValue(row, "it is not a JSON object"))
    return rows, bad


def decoding_of(columns: StructType) -> Decoding:
    """Create the decoder for columns of Spark.

    Raises:
        ValueError: A column type has no JSON representation.
        pyspark.errors.PySparkException: A column type has no Arrow type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - of the driver

    schema = to_arrow_schema(columns, timezone="UTC")
    for field in schema:
        _check(field.type, field.name)
    return Decoding(schema)


def _check(kind: pa.DataType, name: str) -> None:
    if pa.types.is_struct(kind):
        for part in kind:
            if not part.nullable:
                raise ValueError(f"{name}.{part.name}: only columns can be NOT NULL, not what is inside of them")
            _check(part.type, f"{name}.{part.name}")
    elif pa.types.is_list(kind):
        _check(kind.value_type, f"{name}[]")
    elif not any(is_one(kind) for is_one in _KNOWN):
        raise ValueError(f"{name}: JSON cannot be converted to {kind}")


_KNOWN: Final = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_timestamp,
    pa.types.is_date,
)


def _parsed(field: pa.Field) -> pa.Field:
    """Type as which the parser reads a column: dates are strings to the parser."""
    return pa.field(field.name, _parsed_kind(field.type))


def _parsed_kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([_parsed(part) for part in kind])
    if pa.types.is_list(kind):
        return pa.list_(_parsed_kind(kind.value_type))
    return kind


def _said(error: Exception) -> str:
    return str(error).removeprefix("JSON parse error: ").removesuffix(" in row 0")
