"""Messages as JSON objects, as `headrace poll --json` prints them and `headrace send --json-lines` reads them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from headrace.cli.errors import CommandError
from headrace.cli.messages import headers
from headrace.cli.messages.sending import Outgoing
from headrace_core import CodecError

_PARTITION_MAX: Final = 2**32 - 1


def message_of(
    form: Outgoing, fields: Any, everywhere: Mapping[str, str], *, ignore_partitions: bool = False
) -> Outgoing:
    """Return the message that an object describes.

    Args:
        form: Number of the line, and the key or partition that precede those of the object.
        fields: The object: payload or payload_base64; key or key_base64, partition, and headers or user_headers are
            optional.
        everywhere: Headers of every message, which those of the object precede.
        ignore_partitions: Whether the server chooses the partition even if the object has one.

    Raises:
        CommandError: It is not such an object. The message names the line.
    """
    line = form.line
    if not isinstance(fields, dict):
        raise CommandError(f'line {line:,} is not a JSON object: give {{"payload": ...}}')
    key, partition = fields.get("key"), fields.get("partition")
    if key is not None and not isinstance(key, str):
        raise CommandError(f"line {line:,}: key is not text")
    encoded_key = _encoded(line, "key", key) if key is not None else _bytes(line, fields, "key_base64")
    if partition is not None and (
        not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition <= _PARTITION_MAX
    ):
        raise CommandError(f"line {line:,}: partition is not a whole number from 0 to {_PARTITION_MAX:,}")
    encoded = _headers(line, fields, everywhere, encoded_key)
    payload = _payload(line, fields)
    if form.key is not None or form.partition is not None:
        return Outgoing(line, payload, encoded, form.key, form.partition)
    if encoded_key is not None:
        # The partition of a polled message is where it came from: a key decides anew.
        return Outgoing(line, payload, encoded, encoded_key, None)
    return Outgoing(line, payload, encoded, None, None if ignore_partitions else partition)


def parsed(form: Outgoing, everywhere: Mapping[str, str], *, ignore_partitions: bool = False) -> Outgoing:
    """Return the message that a line describes: the payload of `form`.

    Raises:
        CommandError: It is not JSON, or no such object.
    """
    fields = fields_of(form.line, form.payload)
    return message_of(form, fields, everywhere, ignore_partitions=ignore_partitions)


def fields_of(line: int, text: bytes) -> Any:
    """Parse a line.

    Raises:
        CommandError: It is not JSON, or too deeply nested.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"line {line:,} is not JSON: {error}") from error
    except RecursionError as error:
        raise CommandError(_too_deep(line)) from error


def _too_deep(line: int) -> str:
    return f"line {line:,} is too deeply nested: give the payload as text that contains it, or as payload_base64"


def _encoded(line: int, name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        # An escape in JSON can stand for one half of a character that UTF-16 has in two.
        raise CommandError(
            f"line {line:,}: {name} has {text[error.start]!a}, half of a character: give both halves, or "
            f"{name}_base64 for bytes"
        ) from error


def _headers(line: int, fields: dict[str, Any], everywhere: Mapping[str, str], key: bytes | None) -> bytes:
    """Return the headers of an object without its key, which is added again when the message is sent."""
    given, unreadable = fields.get("headers"), _bytes(line, fields, "user_headers")
    if unreadable is not None:
        if given is not None:
            raise CommandError(f"line {line:,}: headers and user_headers exclude each other")
        if everywhere:
            raise CommandError(f"line {line:,}: user_headers are sent as they are, so that --header cannot add to them")
        return headers.without_key(unreadable, key)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise CommandError(f"line {line:,}: headers is not an object of names and values")
    try:
        return headers.encoded_values({**everywhere, **given})
    except (ValueError, TypeError, CodecError) as error:
        raise CommandError(f"line {line:,}: {error}") from error


def _bytes(line: int, fields: dict[str, Any], name: str) -> bytes | None:
    text = fields.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise CommandError(f"line {line:,}: {name} is not text")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CommandError(f"line {line:,}: {name} is not base64: {error}") from error


def _payload(line: int, fields: dict[str, Any]) -> bytes:
    match fields:
        case {"payload": str(text)}:
            return _encoded(line, "payload", text)
        case {"payload_base64": str()}:
            return _bytes(line, fields, "payload_base64") or b""
        case {"payload": value}:
            try:
                return _encoded(line, "payload", json.dumps(value, ensure_ascii=False))
            except RecursionError as error:
                raise CommandError(_too_deep(line)) from error
        case _:
            raise CommandError(f"line {line:,} has no payload: give payload or payload_base64")
