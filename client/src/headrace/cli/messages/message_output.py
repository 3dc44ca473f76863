"""Messages as `headrace poll` prints them."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from headrace.cli import output
from headrace.cli.documents import MessageDocument
from headrace.cli.messages import headers
from headrace_core import Message

Printer = Callable[[int, Message], None]


class MessageForm(StrEnum):
    """Form of messages."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    RAW = "raw"


_FIELD: Final = re.compile(r"%(h\{[^}]*\}|.)|\\(.)", re.DOTALL)
_FIELDS: Final[dict[str, Callable[[int, Message], bytes]]] = {
    "p": lambda partition, _: str(partition).encode(),
    "o": lambda _, message: str(message.offset).encode(),
    "v": lambda _, message: message.payload,
    "k": lambda _, message: message.key or b"",
    "h": lambda _, message: headers.as_line(headers.decoded(message.user_headers) or {}).encode(),
    "t": lambda _, message: output.moment(message.timestamp_micros).encode(),
    "T": lambda _, message: str(message.timestamp_micros).encode(),
    "i": lambda _, message: str(message.id).encode(),
    "s": lambda _, message: str(len(message.payload)).encode(),
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}

FORMAT_HELP: Final = (
    r"Print each message in this format: %p partition, %o offset, %v payload, %k key, %h headers, %h{NAME} one header, "
    r"%t time, %T its microseconds, %i id, %s size in bytes, %% a percent sign, \n line end, \t tab. "
    r"Nothing is added at the end. On a terminal, control characters of messages are escaped."
)


def printer(form: MessageForm) -> Printer:
    """Return a function that prints a message of a partition in this form."""
    match form:
        case MessageForm.RAW:
            return _print_raw
        case MessageForm.JSON:
            return lambda partition, message: output.print_json(document(partition, message))
        case MessageForm.YAML:
            return _print_yaml
        case MessageForm.TEXT:
            return _print_text


def formatted(text: str) -> Printer:
    """Return a function that prints messages in a format of the user.

    Raises:
        ValueError: The format has a field that does not exist.
    """
    parts: list[bytes | Callable[[int, Message], bytes]] = []
    end = 0
    for match in _FIELD.finditer(text):
        parts += [text[end : match.start()].encode(), _field(match)]
        end = match.end()
    parts.append(text[end:].encode())

    # Programs get the bytes of messages as they are, terminals do not: their control characters are commands.
    is_terminal = sys.stdout.isatty()

    def show(partition: int, message: Message) -> None:
        write = sys.stdout.buffer.write
        for part in parts:
            if isinstance(part, bytes):
                write(part)
            elif is_terminal:
                write(output.harmless(part(partition, message).decode(errors="backslashreplace")).encode())
            else:
                write(part(partition, message))

    return show


def document(partition: int, message: Message) -> MessageDocument:
    """Return a message as a value of JSON."""
    found: MessageDocument = {
        "partition": partition,
        "offset": message.offset,
        "timestamp_micros": message.timestamp_micros,
        "origin_timestamp_micros": message.origin_timestamp_micros,
        "id": message.id,
    }
    try:
        found["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        found["payload_base64"] = base64.b64encode(message.payload).decode()
    key = message.key
    if key is not None:
        try:
            found["key"] = key.decode()
        except UnicodeDecodeError:
            found["key_base64"] = base64.b64encode(key).decode()
    if message.user_headers:
        readable = headers.decoded(message.user_headers)
        if readable is None:
            found["user_headers"] = base64.b64encode(message.user_headers).decode()
        elif readable:
            found["headers"] = readable  # type: ignore[typeddict-item]  # `HeaderDocument` is such a dictionary
    return found


def _field(match: re.Match[str]) -> bytes | Callable[[int, Message], bytes]:
    if match[2] is not None:
        return _ESCAPES.get(match[2], match[0]).encode()
    field = match[1]
    if field == "%":
        return b"%"
    if field in _FIELDS:
        return _FIELDS[field]
    if field.startswith("h{"):
        name = field[2:-1]
        return lambda _, message: header_text(message, name).encode()
    raise ValueError(f"there is no field %{field}: see --help, and write %% for a percent sign")


def header_text(message: Message, name: str) -> str:
    """Return a header of a message as text; empty if it has none of this name."""
    found = headers.decoded(message.user_headers) if message.user_headers else None
    return headers.as_text(found[name]) if found and name in found else ""


def _print_raw(_partition: int, message: Message) -> None:
    sys.stdout.buffer.write(message.payload + b"\n")


def _print_yaml(partition: int, message: Message) -> None:
    sys.stdout.write("---\n")
    output.print_yaml(document(partition, message))


def _print_text(partition: int, message: Message) -> None:
    text = output.harmless(message.payload.decode("utf-8", errors="backslashreplace"))
    line = f"{partition}:{message.offset}  {output.moment(message.timestamp_micros)}  {text}"
    if message.key is not None:
        line += f"  key {output.harmless(message.key.decode('utf-8', errors='backslashreplace'))}"
    if message.user_headers:
        readable = headers.decoded(message.user_headers)
        if readable is None:
            line += "  [unreadable headers]"
        elif readable:
            line += f"  [{output.harmless(headers.as_line(readable))}]"
    sys.stdout.write(line + "\n")
