"""Comments and docstrings of source files, found without running them.

Rust and protobuf are read line by line; Python and TypeScript are parsed, as far as strings and comments need it.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.architecture.lexer import tokens_of

_LINE_COMMENTS: Final = {
    ".rs": re.compile(r"\s*(///|//!|//)(?!/)\s?(.*)"),
    ".proto": re.compile(r"\s*(//) ?(.*)"),
}
_MARKERS: Final = re.compile(r"//|/\*+|\*/|^\s*\* ?", re.MULTILINE)
"""Markers of comments in TypeScript, at their start, at their end, and at the start of each line."""
_DOCUMENTATION: Final = {"///", "//!"}
"""Markers of comments that document an item."""
_DIRECTIVE: Final = re.compile(r"!|type:|noqa|mypy:|ruff:|SPDX")


@dataclass(frozen=True, slots=True)
class Comment:
    """A block of comment lines, or a docstring."""

    line: int
    """Line of its start, counted from 1."""
    text: str
    """Text without markers, indentation and quotes."""
    is_documentation: bool
    """True for docstrings and doc comments, which describe an item; false for remarks within code."""


def comments_of(path: Path) -> Iterator[Comment]:
    """Return the comments of a source file; none for a suffix that is unknown."""
    if path.suffix in {".py", ".pyi"}:
        source = path.read_text(encoding="utf-8")
        yield from _docstrings(source)
        yield from _hashes(source)
    elif path.suffix in {".ts", ".tsx", ".js"}:
        for token in tokens_of(path):
            if token.kind == "comment":
                yield Comment(token.line, _MARKERS.sub("", token.text).strip(), token.text.startswith("/**"))
    elif path.suffix in _LINE_COMMENTS:
        yield from _blocks(path.read_text(encoding="utf-8").split("\n"), _LINE_COMMENTS[path.suffix])


def _blocks(lines: list[str], pattern: re.Pattern[str]) -> Iterator[Comment]:
    marker, begins, block = "", 0, list[str]()
    for number, line in enumerate([*lines, ""], start=1):
        match = pattern.match(line)
        if block and (match is None or match[1] != marker):
            yield Comment(begins, "\n".join(block), marker in _DOCUMENTATION)
            block = []
        if match is not None:
            if not block:
                marker, begins = match[1], number
            block.append(match[2])


def _docstrings(source: str) -> Iterator[Comment]:
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield Comment(statement.lineno, textwrap.dedent(text).strip(), is_documentation=True)


def _hashes(source: str) -> Iterator[Comment]:
    begins, last, block = 0, 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _DIRECTIVE.match(text := token.string[1:].strip()):
            continue
        if block and token.start[0] != last + 1:
            yield Comment(begins, "\n".join(block), is_documentation=False)
            block = []
        if not block:
            begins = token.start[0]
        block.append(text)
        last = token.start[0]
    if block:
        yield Comment(begins, "\n".join(block), is_documentation=False)
