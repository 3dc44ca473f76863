"""Payloads as columns: JSON with a schema, msgspec structs, pydantic models, Arrow streams."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.json

from headrace.sdk.errors import InvalidArgument

Decode = Callable[[pa.Array], pa.RecordBatch]
"""Function from payloads to columns, with one row for each payload."""


def decoder(form: Any) -> tuple[Decode, pa.Schema]:
    """Return how payloads of this form are decoded, and the columns that result.

    Args:
        form: A `pyarrow.Schema` of JSON objects, a msgspec struct, or a pydantic model.

    Raises:
        InvalidArgument: It is none of them.
    """
    if isinstance(form, pa.Schema):
        return (lambda payloads: _json(payloads, form)), form
    if isinstance(form, type) and hasattr(form, "__struct_fields__"):
        return _msgspec(form)
    if isinstance(form, type) and hasattr(form, "model_validate_json"):
        return _pydantic(form)
    raise InvalidArgument(f"decode: {form!r} is no pyarrow schema, no msgspec struct and no pydantic model")


def _json(payloads: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    # A payload may be written over several lines: each becomes one line.
    if not len(payloads):
        return pa.RecordBatch.from_pylist([], schema=schema)
    lines = b"\n".join(payload.as_py().replace(b"\r", b" ").replace(b"\n", b" ") for payload in payloads)
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pyarrow.json.ReadOptions(block_size=max(1 << 20, len(lines) + 1))
    try:
        table = pyarrow.json.read_json(io.BytesIO(lines), read_options=read, parse_options=options)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"decode: a payload does not fit the schema: {error}") from None
    if table.num_rows != len(payloads):
        raise InvalidArgument("decode: a payload is empty, which is no JSON object")
    return table.select(schema.names).combine_chunks().to_batches()[0]


def _msgspec(form: Any) -> tuple[Decode, pa.Schema]:
    import msgspec  # noqa: PLC0415 - only where it is asked for

    read = msgspec.json.Decoder(form).decode
    (_, components) = msgspec.json.schema_components([form])
    schema = _schema_of_json(components[form.__name__])

    def decode(payloads: pa.Array) -> pa.RecordBatch:
        try:
            rows = [msgspec.to_builtins(read(payload.as_py())) for payload in payloads]
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise _misfit(error) from None
        return _rows(rows, schema)

    return decode, schema


def _pydantic(form: Any) -> tuple[Decode, pa.Schema]:
    # Columns and rows are named after the fields: a model may have one alias for reading and another for writing.
    schema = _schema_of_json(form.model_json_schema(by_alias=False))

    def decode(payloads: pa.Array) -> pa.RecordBatch:
        models = (form.model_validate_json(payload.as_py()) for payload in payloads)
        try:
            rows = [model.model_dump(mode="json", by_alias=False) for model in models]
        except ValueError as error:
            # Among them pydantic's own.
            raise _misfit(error) from None
        return _rows(rows, schema)

    return decode, schema


def _rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    nested = {field.name for field in schema if field.metadata == {b"json": b"1"}}
    if nested:
        rows = [
            {name: json.dumps(value) if name in nested and value is not None else value for name, value in row.items()}
            for row in rows
        ]
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        # A number beyond 64 bits, for example, or half a character.
        raise _misfit(error) from None


def _misfit(error: Exception) -> InvalidArgument:
    return InvalidArgument(f"decode: a payload does not fit: {error}")


def _schema_of_json(description: dict[str, Any]) -> pa.Schema:
    kinds = {"string": pa.utf8(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    fields = []
    for name, found in description.get("properties", {}).items():
        options = found.get("anyOf", [found])
        types = {option.get("type") for option in options} - {"null"}
        only = next(iter(types)) if len(types) == 1 else None
        # Anything that is no plain value stays JSON, as a text.
        kind = kinds.get(only) if only is not None else None
        fields.append(pa.field(name, pa.utf8(), metadata={"json": "1"}) if kind is None else pa.field(name, kind))
    return pa.schema(fields)
