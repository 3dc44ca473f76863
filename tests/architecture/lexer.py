"""Tokens of Rust and of TypeScript: comments, string literals and names, as far as a search for words needs them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_NAME: Final = r"(?P<name>[A-Za-z_$][\w$]*)"
_RUST: Final = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<text> b?r(?P<hashes>\#*)".*?"(?P=hashes) | [bc]?"(?:\\.|[^"\\])*" )
    | b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'\n])'  # a character, in contrast to a lifetime
    | """
    + _NAME,
    re.VERBOSE | re.DOTALL,
)
# Text between JSX tags is read as names, and so are the fields of a template literal within its text.
_TYPESCRIPT: Final = re.compile(
    r"""
    (?P<comment> (?<!:)//[^\n]* | /\*.*?\*/ )
    | (?P<text> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | `(?:\\.|[^`\\])*` )
    | """
    + _NAME,
    re.VERBOSE | re.DOTALL,
)
_PATTERNS: Final = {".rs": _RUST, ".ts": _TYPESCRIPT, ".tsx": _TYPESCRIPT, ".js": _TYPESCRIPT}
SUFFIXES: Final = frozenset(_PATTERNS)
"""Suffixes of the files that can be read."""


class Token(NamedTuple):
    """A token, with its line."""

    line: int
    kind: str
    """`comment`, `text` or `name`."""
    text: str


def tokens_of(path: Path) -> Iterator[Token]:
    """Return the tokens of a file, in order; operators, numbers and characters are left out."""
    source = path.read_text(encoding="utf-8")
    line, begin = 1, 0
    for match in _PATTERNS[path.suffix].finditer(source):
        line += source.count("\n", begin, match.start())
        begin = match.start()
        for kind in ("comment", "text", "name"):
            if match[kind] is not None:
                yield Token(line, kind, match[kind])


def code_of(path: Path) -> str:
    """Return a file with comments and literals left out; a newline in one of them is left out, too."""
    pattern = _PATTERNS[path.suffix]
    return pattern.sub(lambda match: match[0] if match["name"] else " ", path.read_text(encoding="utf-8"))
