"""Messages, and values of columns, as JSON, for sinks that write JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace_connectors.contract import InvalidRecord, Received
from headrace_connectors.json_errors import NO_FORM_IN_JSON
from headrace_connectors.json_values import JsonEncoder

_ENCODER: Final = JsonEncoder()


def json_text(column: str, value: Any) -> str:
    """Return the value of a column as text with JSON; decimals are strings.

    Raises:
        InvalidRecord: It has no form in JSON.
    """
    try:
        return _ENCODER.encode(value).decode()
    except NO_FORM_IN_JSON as error:
        raise InvalidRecord(f"{column} has no form in JSON: {error}") from error


def encoded(messages: Sequence[Received], value_of: Callable[[Received], Any]) -> list[bytes]:
    """Return the values of messages as JSON.

    Raises:
        InvalidRecord: A value has no form in JSON; with the index of its message.
    """
    values = []
    for index, message in enumerate(messages):
        try:
            values.append(_ENCODER.encode(value_of(message)))
        except NO_FORM_IN_JSON as error:
            raise InvalidRecord(f"the payload has no form in JSON: {error}", index=index) from error
    return values


def key_text(message: Received) -> str | None:
    """Return the key of a message as text."""
    return None if message.key is None else message.key.decode(errors="replace")
