"""Names and texts in Python code, found without running it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Word(NamedTuple):
    """A name or a text, with its line."""

    line: int
    text: str


def identifiers_of(path: Path) -> Iterator[Word]:
    """Return every identifier, in order of occurrence."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield Word(token.start[0], token.string)


def parts_of(identifier: str) -> str:
    """Return the words of an identifier, separated by spaces."""
    return " ".join(_CAMEL.sub("_", identifier).split("_")).strip()


def texts_of(path: Path) -> Iterator[Word]:
    """Return every string literal with a space, without documentation; a field of an f-string becomes `{}`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(value) for value in node.values)
    for node in ast.walk(tree):
        if id(node) not in skipped and (text := _text(node)) is not None and " " in text.strip():
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
