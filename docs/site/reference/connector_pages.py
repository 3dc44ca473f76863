"""Pages of connectors, `docs/connectors`: a page for each source and sink, and one each for transforms and codecs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final

from connector_examples import Example, examples
from tables import cell, code, prose

from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Setting, settings_of
from headrace_settings.display.rendering import shown_value
from headrace_settings.units.quantity import Quantity

TEST: Final = "tests/site/test_gallery.py"
_MADE: Final = "Made from the plugin and from {source}."
_RUN: Final = (
    "`HEADRACE_SERVER`, `HEADRACE_USERNAME` and `HEADRACE_PASSWORD` name the server and the user; `headrace up` starts "
    "a server, and [connectors](../connectors.md) has the settings that all connectors share."
)


def pages() -> dict[str, str]:
    """Return the pages by the names of their files."""
    plugins, found = Plugins(), examples()
    made = {f"{one.kind}-{one.name}.md": _page(one, plugins) for one in found}
    made["transforms.md"] = _list_page("transforms", "Transforms", "transforms.NAME", plugins)
    made["codecs.md"] = _list_page("codecs", "Codecs", "codec_settings", plugins)
    return {"index.md": _index(found), **made}


def _index(found: Sequence[Example]) -> str:
    lines = [
        "# Gallery of connectors",
        "",
        "A page for each connector, with a file that runs. [Connectors](../connectors.md) explains their guarantees.",
    ]
    for kind, title in (("source", "Sources"), ("sink", "Sinks")):
        lines += ["", f"## {title}", "", "| plugin | example |", "| --- | --- |"]
        lines += [
            f"| [`{one.name}`]({one.kind}-{one.name}.md) | {cell(prose(one.about))} |"
            for one in found
            if one.kind == kind
        ]
    lines += [
        "",
        "## Between them",
        "",
        "[Transforms](transforms.md) change records, and [codecs](codecs.md) encode them.",
    ]
    return "\n".join(lines) + "\n"


def _page(example: Example, plugins: Plugins) -> str:
    kind = plugins.load(f"{example.kind}s", example.name)
    path = f"examples/connectors/{example.path.name}"
    lines = [
        f"# {example.kind.capitalize()} `{example.name}`",
        "",
        f"<!-- page: run by {TEST} -->",
        "",
        _MADE.format(source=f"`{path}`"),
        "",
        *_described(kind),
        "",
        "## Example",
        "",
        prose(example.about),
        "",
        "```toml",
        example.text.rstrip("\n"),
        "```",
        "",
        *_commands("Before it runs:", example.before),
        *_commands("In a directory with this file:", [f"headrace connect run {example.path.name}"]),
        *_commands("While it runs, from another terminal:", example.then),
        *_commands("To see the result:", example.check),
        _RUN,
        "",
        "## Settings",
        "",
        *_settings(kind.settings_type, f"{example.kind}s.NAME.settings"),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _list_page(kind: str, title: str, table: str, plugins: Plugins) -> str:
    lines = [f"# {title}", "", _MADE.format(source="its settings").replace("the plugin", "each plugin"), ""]
    for name in plugins.names(kind):
        loaded = plugins.load(kind, name)
        lines += [f"## `{name}`", "", *_described(loaded), "", *_settings(loaded.settings_type, table), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _described(kind: type[Any]) -> Iterator[str]:
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if number:
            yield ""
        yield prose(" ".join(paragraph.split()))


def _commands(title: str, commands: Sequence[str]) -> Iterator[str]:
    if commands:
        yield from (title, "", "```bash", *commands, "```", "")


def _settings(model: type[Any], table: str) -> Iterator[str]:
    found = settings_of(model)
    if not found:
        yield "No settings."
        return
    yield f"In `{table}`:"
    yield from ("", "| setting | default | meaning |", "| --- | --- | --- |")
    for setting in found:
        names = code(setting.dotted) + (f" or {code(setting.dotted + '_file')}" if setting.is_secret else "")
        allowed = "" if setting.allowed == "text" or setting.is_secret else f" *Allowed: {cell(setting.allowed)}.*"
        yield f"| {names} | {_default(setting)} | {cell(prose(setting.description))}{allowed} |"


def _default(setting: Setting) -> str:
    if setting.field.is_required():
        return "needed"
    default = setting.field.get_default(call_default_factory=True)
    if default is None or setting.is_secret:
        return "not set"
    if isinstance(default, dict):
        return "`{}`"
    return code(str(default) if isinstance(default, Quantity) else shown_value(default))
