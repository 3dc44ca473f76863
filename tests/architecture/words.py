"""Names and texts in code of Python, Rust and TypeScript, found without running it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.architecture import lexer

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
SUFFIXES: Final = lexer.SUFFIXES | {".py", ".pyi"}
"""Suffixes of the files that can be read."""


class Word(NamedTuple):
    """A name or a text, with its line."""

    line: int
    text: str


def identifiers_of(path: Path) -> Iterator[Word]:
    """Return every identifier, in order of occurrence."""
    if path.suffix in lexer.SUFFIXES:
        yield from (Word(token.line, token.text) for token in lexer.tokens_of(path) if token.kind == "name")
        return
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield Word(token.start[0], token.string)


def parts_of(identifier: str) -> str:
    """Return the words of an identifier, separated by spaces."""
    return " ".join(_CAMEL.sub("_", identifier).split("_")).strip()


def labels_of(path: Path) -> Iterator[Word]:
    """Return every string literal without a space: options, metrics, events and others that name something."""
    yield from (literal for literal in _literals_of(path) if " " not in literal.text.strip())


def texts_of(path: Path) -> Iterator[Word]:
    """Return every string literal with a space, without documentation; a field of an f-string becomes `{}`."""
    yield from (literal for literal in _literals_of(path) if " " in literal.text.strip())


def _literals_of(path: Path) -> Iterator[Word]:
    if path.suffix in lexer.SUFFIXES:
        yield from (Word(token.line, token.text) for token in lexer.tokens_of(path) if token.kind == "text")
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(value) for value in node.values)
    for node in ast.walk(tree):
        if id(node) not in skipped and (text := _text(node)) is not None:
            yield Word(getattr(node, "lineno", 0), text)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else "{}"
            for value in node.values
        )
    return None
