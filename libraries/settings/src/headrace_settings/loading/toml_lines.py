"""Line numbers of the keys of a TOML file, which the standard library's parser does not report."""

from __future__ import annotations

import re

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY_PART = re.compile(
    r"""[ \t]*(?:"(?P<basic>(?:\\.|[^"\\])*)"|'(?P<literal>[^']*)'|(?P<bare>[A-Za-z0-9_-]+))[ \t]*"""
)
# Tokens that can hide a line break or a bracket inside a value: strings of four kinds, and comments.
_OPAQUE = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*",
    re.DOTALL,
)


def lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    """Map every key and table of a document to its line, counted from 1.

    Args:
        text: A document that ``tomllib`` has accepted; for others the result is unspecified. Keys within
            inline tables and arrays of tables share the line of their container.
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    position = _skip_blank(text, 0)
    while position < len(text):
        line = text.count("\n", 0, position) + 1
        if text[position] == "[":
            brackets = 2 if text.startswith("[[", position) else 1
            table, position = _dotted_key(text, position + brackets)
            lines.setdefault(table, line)
            position += brackets
        else:
            key, position = _dotted_key(text, position)
            for depth in range(1, len(key) + 1):
                lines.setdefault(table + key[:depth], line)
            position = _end_of_value(text, position + 1)
        position = _skip_blank(text, position)
    return lines


def _skip_blank(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _dotted_key(text: str, position: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while part := _KEY_PART.match(text, position):
        parts.append(part["basic"] or part["literal"] or part["bare"] or "")
        position = part.end()
        if not text.startswith(".", position):
            break
        position += 1
    return tuple(parts), position


def _end_of_value(text: str, position: int) -> int:
    depth = 0
    while position < len(text):
        opaque = _OPAQUE.match(text, position)
        if opaque:
            position = opaque.end()
            continue
        character = text[position]
        if character == "\n" and depth == 0:
            return position
        depth += (character in "[{") - (character in "]}")
        position += 1
    return position
