"""Payloads of records, for transforms of fields: objects, and records with other payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace_connectors.contract import InvalidRecord, Record
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value
from headrace_connectors.routing.paths import with_value


def object_of(record: Record) -> Mapping[str, Any]:
    """Return the payload of a record, which is an object; of bytes, the object that they are as JSON.

    Raises:
        InvalidRecord: The payload is something else.
    """
    payload = decoded(record)
    if not isinstance(payload, Mapping):
        raise InvalidRecord(f"the payload is a {type(payload).__name__}, and has no fields")
    return payload


def decoded(record: Record) -> Any:
    """Return the payload of a record; of bytes, the value that they are as JSON.

    Raises:
        InvalidRecord: The bytes are not JSON.
    """
    if not isinstance(record.payload, bytes):
        return record.payload
    try:
        return json_value(record.payload)
    except NOT_JSON as error:
        raise InvalidRecord(f"the payload is not JSON, and has no fields: {error}") from error


def placed(payload: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return a payload with a value at a path.

    Raises:
        InvalidRecord: Something on the path is no object.
    """
    try:
        return with_value(payload, path, value)
    except ValueError as error:
        raise InvalidRecord(f"{'.'.join(path)} cannot be set: {error}") from error


def with_payload(record: Record, payload: Any) -> Record:
    """Return the same record with another payload."""
    return msgspec.structs.replace(record, payload=payload)
