"""Links of documents as links of the site, and summaries of pages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]
EXTRA: Any = load_config(str(ROOT / "mkdocs.yml")).extra
DOCUMENTS = [
    *map(Path, EXTRA["documents"]),
    *(path.relative_to(ROOT) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
PLACES = {
    "docs/http.md": "http.md",
    "docs/decisions/0001-ids.md": "decisions/0001-ids.md",
    "ARCHITECTURE.md": "architecture.md",
    "compose/README.md": "guides/cluster.md",
}


def module(name: str) -> ModuleType:
    """Import a module of `docs/site`, which MkDocs finds next to the hooks, without shadowing the `site` of Python."""
    spec = importlib.util.spec_from_file_location(f"documents_{name}", ROOT / f"docs/site/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


links = module("links")
llms = module("llms")


@pytest.mark.parametrize(
    ("document", "link", "expected"),
    [
        ("ARCHITECTURE.md", "[a](docs/http.md#send)", "[a](http.md#send)"),
        ("docs/decisions/0001-ids.md", "[a](../http.md)", "[a](../http.md)"),
        ("docs/http.md", "[a\nb](../ARCHITECTURE.md)", "[a\nb](architecture.md)"),
        ("compose/README.md", "[a](../docs/decisions/0001-ids.md)", "[a](../decisions/0001-ids.md)"),
        # Source code has no page, and what does not exist is left for the build to report.
        ("docs/http.md", "see [`x` [1]](../Makefile)", "see `x` [1]"),
        ("docs/http.md", "[a](../missing.md)", "[a](../missing.md)"),
        ("docs/http.md", "[a](https://example.com/b.md), [b](#c)", "[a](https://example.com/b.md), [b](#c)"),
        # Code is not changed.
        ("docs/http.md", "`[a](../Makefile)`", "`[a](../Makefile)`"),
        ("docs/http.md", "```\n[a](../Makefile)\n```\n[b](../Makefile)", "```\n[a](../Makefile)\n```\nb"),
    ],
)
def test_links_are_rewritten(document: str, link: str, expected: str) -> None:
    assert links.rewrite(link, document, ROOT, PLACES.get) == expected


def links_of(markdown: str) -> list[str]:
    """Paths that a document links to, without those in code and those of other hosts."""
    code = list(links.code_positions(markdown))
    found = [link for link in links.LINK.finditer(markdown) if not any(a <= link.start() < b for a, b in code)]
    return [link[2].partition("#")[0] for link in found if not links.ELSEWHERE.match(link[2])]


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_a_reader_of_the_repository_has_what_a_document_links_to(document: Path) -> None:
    """A page that only the site has is linked by what it is made of."""
    text = (ROOT / document).read_text(encoding="utf-8")
    assert [path for path in links_of(text) if not (ROOT / document.parent / path).exists()] == []


def test_what_pages_are_made_of_is_there() -> None:
    assert [source for source in EXTRA["made"] if not (ROOT / source).exists()] == []


def test_links_to_what_a_page_is_made_of_lead_to_the_page(site: Path) -> None:
    assert "](commands.md)" in (site / "protocol-extensions.md").read_text(encoding="utf-8")
    assert "](../connectors/index.md)" in (site / "tutorials/tour.md").read_text(encoding="utf-8")


def test_a_document_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"README\.md is not on the site"):
        links.rewrite("", "README.md", ROOT, PLACES.get)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("# T\n\nOne [link](a.md)\nand more. Two.\n", "One link and more."),
        ("# T\n\n```\ncode\n```\n\n- list\n\n`a` is it: see below.\n", "`a` is it: see below."),
        ("# T\n\n| a |\n| - |\n", ""),
        ("# T\n\n" + "word " * 100, ("word " * 40)[:194] + "..."),
    ],
)
def test_a_summary_is_the_first_sentence(page: str, expected: str) -> None:
    assert llms.summary(page) == expected
