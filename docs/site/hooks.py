"""Hooks of the site's build: documents from outside of `docs/`, made pages, links, scripts, pages for language models.

MkDocs calls the functions by their names. The other modules of this directory have what can be tested without a build.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import links
import llms
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPTS: Final = {
    "assets/iframe-worker.js": "web/node_modules/iframe-worker/shim/index.js",
    "assets/mermaid.js": "web/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js",
}
"""Scripts by their places on the site; npm's packages have them."""

MERMAID: Final = "assets/mermaid.js"
MADE: Final = tempfile.TemporaryDirectory(prefix="headrace-site-")
"""Directory of the pages that are made of the product, at their places on the site."""

markdown_of: dict[str, str] = {}
"""Pages of this build as Markdown, by their places on the site."""


def outside(config: MkDocsConfig) -> dict[str, str]:
    """Return the places of documents that are not in `docs/`, by their paths in the repository."""
    documents: dict[str, str] = config.extra["documents"]
    return documents


def on_startup(**_: Any) -> None:
    """Make the pages that are made of the product: once for a program that builds the site again and again."""
    paths = os.pathsep.join(str(ROOT / path) for path in ("proto", "docs"))
    command: list[str | Path] = [sys.executable, ROOT / "docs/site/reference", MADE.name]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, check=False)  # noqa: S603 - it is ours
    if done.returncode:
        raise PluginError("the pages that are made of the product cannot be made: see above")


def on_shutdown() -> None:
    """Remove what was made."""
    MADE.cleanup()


def made_pages() -> list[str]:
    """Return the places of the pages that were made."""
    return [path.relative_to(MADE.name).as_posix() for path in sorted(Path(MADE.name).rglob("*.md"))]


def expanded(entry: Any) -> Any:
    """Return an entry of the navigation, with the pages of a directory in place of a pattern."""
    if isinstance(entry, dict):
        return {title: expanded(inner) for title, inner in entry.items()}
    if isinstance(entry, list):
        pages: list[Any] = []
        for inner in entry:
            if isinstance(inner, str) and "*" in inner:
                found = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob(inner)]
                found += [page for page in made_pages() if PurePath(page).match(inner)]
                pages += [page for page in sorted(found) if page not in entry]
            else:
                pages.append(expanded(inner))
        return pages
    return entry


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand patterns of the navigation, and check that npm's packages are there."""
    config.nav = expanded(config.nav)
    for source in SCRIPTS.values():
        if not (ROOT / source).is_file():
            raise PluginError(f"{source} does not exist: run `make setup`, which installs npm's packages")
    markdown_of.clear()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add documents from outside of `docs/`, pages that were made, and scripts."""
    for document, place in outside(config).items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / document)))
    for place in made_pages():
        files.append(File.generated(config, place, abs_src_path=str(Path(MADE.name, place))))
    for place, source in SCRIPTS.items():
        script = File.generated(config, place, abs_src_path=str(ROOT / source))
        script.inclusion = InclusionLevel.INCLUDED
        files.append(script)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page from the repository's paths to the site's."""
    made: dict[str, str] = config.extra["made"]
    places = outside(config) | made
    documents = {place: document for document, place in outside(config).items()}

    def place_of(document: str) -> str | None:
        if document in places:
            return places[document]
        inside = document.removeprefix("docs/")
        return inside if inside != document and files.get_file_from_path(inside) else None

    place = page.file.src_uri
    rewritten = links.rewrite(markdown, documents.get(place, f"docs/{place}"), ROOT, place_of)
    markdown_of[place] = rewritten
    return rewritten


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load the program that draws diagrams, on pages that have one: it is large."""
    if 'class="mermaid"' not in output:
        return output
    depth = page.file.dest_uri.count("/")
    return output.replace("</head>", f'<script src="{"../" * depth}{MERMAID}"></script></head>', 1)


def on_nav(nav: Navigation, config: MkDocsConfig, **_: Any) -> Navigation:
    """Keep the navigation for `on_post_build`."""
    config.extra["navigation"] = nav
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt`, `llms-full.txt`, and each page as Markdown."""
    navigation: Navigation = config.extra.pop("navigation")
    site = Path(config.site_dir)
    sections = llms.sections_of(navigation)
    for place, markdown in markdown_of.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(markdown, encoding="utf-8")
    (site / "llms.txt").write_text(
        llms.index(config.site_name, config.site_description or "", sections, markdown_of), encoding="utf-8"
    )
    (site / "llms-full.txt").write_text(llms.full(sections, markdown_of), encoding="utf-8")
    logging.getLogger("mkdocs.hooks").info("llms.txt lists %d pages", len(markdown_of))
