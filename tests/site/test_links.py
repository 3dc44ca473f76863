"""Links of documents as links of the site, and summaries of pages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
