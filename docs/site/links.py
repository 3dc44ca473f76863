"""Links of documents, which are written for the repository, as links between pages of the site.

A document links to another by its path in the repository. On the site some documents have other places, and source code
has none.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

FENCED: Final = re.compile(r"^([ ]*)(`{3,}|~{3,})[^\n]*\n.*?^\1\2[ ]*$", re.DOTALL | re.MULTILINE)
SPAN: Final = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)", re.DOTALL)
ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def code_positions(markdown: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each code block, and of each code span that is not within a link's text."""
    position = 0
    for block in [*FENCED.finditer(markdown), None]:
        end = block.start() if block else len(markdown)
        for span in SPAN.finditer(markdown, position, end):
            yield span.span()
        if block:
            yield block.span()
            position = block.end()


def rewrite(markdown: str, document: str, root: Path, place_of: Callable[[str], str | None]) -> str:
    """Return a document with links as they are on the site.

    Args:
        markdown: the document.
        document: its path in the repository.
        root: the directory of the repository.
        place_of: returns the path of a page on the site for the path of a document in the repository, or `None` if the
            site does not have it.

    A link to a file that exists, but is not on the site, is replaced by its text. A link to nothing stays, so that the
    build reports it.
    """
    here = place_of(document)
    if here is None:
        raise ValueError(f"{document} is not on the site")
    code = list(code_positions(markdown))

    def replaced(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        if ELSEWHERE.match(target) or any(start <= link.start() < end for start, end in code):
            return link[0]
        path, hash_sign, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(document), path))
        if place := place_of(path):
            return f"[{text}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{hash_sign}{anchor})"
        return text if (root / path).exists() else link[0]

    return LINK.sub(replaced, markdown)
