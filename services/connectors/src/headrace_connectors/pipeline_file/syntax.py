"""Errors of TOML, with the key of the line and advice, which the standard library's parser does not give."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from headrace_settings import FileOrigin, Problem

_PLACE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
_HEADER: Final = re.compile(r"\s*\[{1,2}\s*(?P<name>[^\[\]\n#]*)")
_KEY: Final = re.compile(r"\s*(?P<name>[^=\[\]\n#]*?)\s*(?:=|$)")
_ADVICE: Final = (
    ("Cannot declare", "a table is there once: put its settings below the first of its headers"),
    ("Cannot overwrite", "it is set twice: remove one of them"),
    ("Cannot mutate immutable", "it is complete where it is written in braces: add the setting there"),
    ("Expected '=' after a key", "write NAME = VALUE"),
    ("Illegal character '\\n'", 'a text ends with a quote on the same line: add the "'),
    ("Unterminated string", 'a text ends with a quote: add the "'),
    ("Expected ']'", "close the bracket"),
    ("Unclosed array", "close the bracket: ]"),
    ("Unclosed inline table", "close the brace: }, which has to be on the same line"),
    ("Unescaped '\\'", "write \\\\ for a backslash, or put the text in single quotes"),
    ("Invalid value", 'put texts in quotes: "..."; other values are numbers, true, false, lists and tables'),
    ("Invalid initial character for a key", 'put the name in quotes: "..."'),
    ("Expected newline or end of document", "write each setting on a line of its own, and put texts in quotes"),
)


def syntax_problem(file: Path, text: str, error: tomllib.TOMLDecodeError) -> Problem:
    """Return what is wrong in a file that is not TOML: its line, the key there, and what to do."""
    message = str(error)
    place = _PLACE.search(message)
    lines = text.split("\n")
    number = int(place["line"]) if place is not None and place["line"] is not None else len(lines)
    if place is not None:
        message = message[: place.start()]
    if number > 1 and not lines[number - 1].strip():
        # The end of the file, or of a line: what was begun before it.
        number = next((line for line in range(number, 0, -1) if lines[line - 1].strip()), number)
    advice = next((text for start, text in _ADVICE if message.startswith(start)), "write [TABLE] or NAME = VALUE")
    if message.startswith("Invalid initial character") and "{" in lines[number - 1]:
        advice = "a table in braces is on one line"
    name = _name(lines, number) or str(file)
    return Problem(name, f"is not TOML: {message}; {advice}", FileOrigin(file, number))


def _name(lines: list[str], number: int) -> str:
    """Return the table or the key of a line, as far as it can be read."""
    line = lines[number - 1]
    if (header := _HEADER.match(line)) is not None:
        return header["name"].strip()
    key = _KEY.match(line)
    name = key["name"].strip() if key is not None else ""
    for earlier in reversed(lines[: number - 1]):
        if (header := _HEADER.match(earlier)) is not None and "=" not in earlier.partition("#")[0]:
            return f"{header['name'].strip()}.{name}" if name else header["name"].strip()
    return name
