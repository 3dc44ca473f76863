"""Pages for programs that read text: `llms.txt` lists all pages, `llms-full.txt` contains them (https://llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mkdocs.structure import nav

if TYPE_CHECKING:
    from mkdocs.structure import StructureItem

SUMMARY_MAX: Final = 200
"""Maximum length of a page's summary in characters."""

BLOCK: Final = re.compile(r"\n{2,}")
NOT_PROSE: Final = re.compile(r"[#|>]|```|<!--|[-*] |\d+\. ")
REFERENCE: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass
class Section:
    """A section of the navigation: its title, and the titles and places of its pages in order."""

    title: str
    pages: list[tuple[str, str]] = field(default_factory=list)


def sections_of(navigation: nav.Navigation) -> list[Section]:
    """Return the top of the navigation as sections; a page at the top belongs to the section before, or a first one."""
    sections: list[Section] = []
    for item in navigation.items:
        if item.is_section:
            sections.append(Section(str(item.title)))
        elif not sections:
            sections.append(Section("Start"))
        sections[-1].pages.extend(pages_of(item))
    return sections


def pages_of(item: StructureItem) -> list[tuple[str, str]]:
    """Return title and place of each page of a part of the navigation."""
    if isinstance(item, nav.Section):
        return [page for child in item.children for page in pages_of(child)]
    file = getattr(item, "file", None)
    return [(str(item.title), file.src_uri)] if file else []


def summary(markdown: str) -> str:
    """Return the first sentence of the first paragraph of a page, without links, or nothing if there is none."""
    for block in BLOCK.split(markdown.strip()):
        if not NOT_PROSE.match(block):
            text = REFERENCE.sub(r"\1", " ".join(block.split()))
            sentence = re.split(r"(?<=\.) (?=[A-Z`])", text, maxsplit=1)[0].rstrip(":")
            return sentence if len(sentence) <= SUMMARY_MAX else sentence[: SUMMARY_MAX - 3].rsplit(" ", 1)[0] + "..."
    return ""


def index(name: str, description: str, sections: list[Section], markdown_of: Mapping[str, str]) -> str:
    """Return `llms.txt`: what the product is, and each page with its summary."""
    lines = [f"# {name}", "", f"> {description}", "", "Every page is Markdown; llms-full.txt has all of them.", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for title, place in section.pages:
            about = summary(markdown_of[place])
            lines.append(f"- [{title}]({place})" + (f": {about}" if about else ""))
        lines.append("")
    return "\n".join(lines)


def full(sections: list[Section], markdown_of: Mapping[str, str]) -> str:
    """Return `llms-full.txt`: every page in the order of the navigation, below its place."""
    places = [place for section in sections for _, place in section.pages]
    return "\n".join(f"<!-- {place} -->\n\n{markdown_of[place].strip()}\n" for place in places)
