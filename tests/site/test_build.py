"""The built site: complete, without other hosts, and with the structure that the documents have elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.site.conftest import ROOT, build

STRUCTURE = {"blockquote", "li", "ol", "pre", "table", "td", "th", "tr", "ul"}
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""Elements that load something, and the attribute that names it."""


class Elements(HTMLParser):
    """Elements of a page: how many of each kind its article has, and what the whole page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.loaded: list[str] = []
        self._is_article = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            self._is_article = True
        if self._is_article and tag in STRUCTURE:
            self.counts[tag] += 1
        if address := dict(attrs).get(LOADED.get(tag, "")):
            self.loaded.append(address)

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._is_article = False


def html_of(page: Path) -> Path:
    """The HTML of a page: a README is the index of its directory."""
    return page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")


def elements(html: str) -> Elements:
    parser = Elements()
    parser.feed(html)
    return parser


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        for address in elements(page.read_text(encoding="utf-8")).loaded:
            assert not re.match(r"([a-z]+:)?//", address), f"{page}: {address}"
            if not address.startswith("data:") and page.name != "404.html":
                assert (page.parent / re.sub("[?#].*", "", address)).exists(), f"{page}: {address}"


@pytest.mark.long
def test_pages_have_the_lists_tables_and_blocks_that_commonmark_has(site: Path) -> None:
    """MkDocs's Markdown is stricter than CommonMark: a list directly below a line is part of the paragraph."""
    for page in sorted(site.rglob("*.md")):
        markdown = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        if "\n::: " in markdown:
            continue  # The reference of a Python package is not written in the page.
        expected = elements(f"<article>{MarkdownIt('commonmark').enable('table').render(markdown)}").counts
        found = elements(html_of(page).read_text(encoding="utf-8")).counts
        assert found == expected, page


def test_llms_txt_lists_every_page(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# Headrace\n\n> ")
    listed = re.findall(r"^- \[.+\]\(([\w/.-]+\.md)\)", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.relative_to(site).as_posix() for path in site.rglob("*.md"))
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert re.findall(r"^<!-- ([\w/.-]+\.md) -->$", full, flags=re.MULTILINE) == listed


def test_every_document_of_docs_is_a_page(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert {path for path in documents if not html_of(site / path).is_file()} == set()


@pytest.mark.parametrize("link", ["[gone](gone.md)", "[http](http.md#no-such-section)"])
def test_a_broken_link_fails_the_build(tmp_path: Path, link: str) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "index.md").write_text(f"# Page\n\n{link}\n")
    (documents / "http.md").write_text("# HTTP\n")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = text[text.index("validation:") : text.index("watch:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: Test\n{validation}")
    result = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert result.returncode != 0
    assert link.partition("(")[2].rstrip(")").partition("#")[2 if "#" in link else 0] in result.stderr
