"""Code blocks of documents, and what comments in the documents say about running them.

Comments are invisible on the site and on GitHub. One that stands directly above a block is about that block:

    <!-- not run: REASON -->        the block is only an example
    <!-- run by FILE -->            a test of its own runs it
    <!-- file: NAME -->             the block is the contents of a file, which later blocks use
    <!-- continues -->              the block is the next part of the program in the block before

One that stands alone, at the top of a page, is about the page:

    <!-- page: no server -->        its blocks start what they need
    <!-- page: with PostgreSQL -->  there is an empty PostgreSQL server, which libpq's variables name
    <!-- page: run by FILE -->      a test of its own runs all blocks
    <!-- page: not run: REASON -->  all blocks are only examples
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mkdocs.config import load_config

ROOT: Final = Path(__file__).resolve().parents[2]
RUN: Final = frozenset({"bash", "console", "python"})
"""Languages of blocks that are run."""
KNOWN: Final = RUN | {"json", "mermaid", "sql", "text", "toml", "ts", "yaml", "html", "ini"}
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<about>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One code block."""

    page: Path
    line: int
    """Line of the page at which the code begins."""
    language: str
    code: str
    about: str
    """Comment directly above; empty if there is none."""

    @property
    def place(self) -> str:
        """Path of the page and line, for messages."""
        return f"{self.page}:{self.line}"

    def says(self, key: str) -> str | None:
        """Return the value of a comment `key: VALUE` or `key VALUE` above the block has as value."""
        return self.about.removeprefix(key).lstrip(": ") if self.about.startswith(key) else None

    @property
    def is_run(self) -> bool:
        """Return whether the block is run by the test of its page."""
        skipped = self.says("not run") is not None or self.says("run by") is not None
        return self.language in RUN and not skipped and self.says("file") is None


@dataclass(frozen=True)
class Page:
    """One document."""

    path: Path
    """Path in the repository."""
    text: str

    @property
    def blocks(self) -> list[Block]:
        """All code blocks in order."""
        return [
            Block(
                self.path,
                self.text.count("\n", 0, found.start("code")) + 1,
                found["language"],
                found["code"],
                found["about"] or "",
            )
            for found in _BLOCK.finditer(self.text)
        ]

    @property
    def is_run(self) -> bool:
        """Return whether any block is run by the test of the page."""
        is_elsewhere = self.says("run by") is not None or self.says("not run") is not None
        return not is_elsewhere and any(block.is_run for block in self.blocks)

    def says(self, key: str) -> str | None:
        """Return the value of a comment `page: key VALUE` has as value."""
        found = re.search(rf"^<!-- page: {re.escape(key)}:? ?(.*?) -->$", self.text, flags=re.MULTILINE)
        return found[1] if found else None


def read(path: Path) -> Page:
    """Read a document."""
    return Page(path, (ROOT / path).read_text(encoding="utf-8"))


def pages(*sections: str) -> list[Page]:
    """Return the pages of sections of the navigation, without those that are made when the site is built."""
    config: Any = load_config(str(ROOT / "mkdocs.yml"))
    outside = {place: document for document, place in config.extra["documents"].items()}
    made = set(config.extra["made"].values())
    found = [
        place
        for part in config.nav
        for title, entries in part.items()
        if title in sections
        for place in _places(entries)
        if place not in made
    ]
    return [read(Path(outside.get(place, f"docs/{place}"))) for place in found]


def _places(entry: Any) -> Iterator[str]:
    if isinstance(entry, str) and "*" in entry:
        yield from sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob(entry))
    elif isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for inner in entry.values():
            yield from _places(inner)
    else:
        for inner in entry:
            yield from _places(inner)
