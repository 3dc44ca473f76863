"""A pipeline file to be completed: every setting of a plugin with its default and its description."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headrace_connectors.contract import Sink, Source
from headrace_connectors.pipeline_file.models import (
    ConnectorSettings,
    HttpSettings,
    RuntimeSettings,
    ServerSettings,
    SinkSettings,
    SourceSettings,
)
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Path, Secret, Setting
from headrace_settings.display.rendering import shown_value

_WIDTH: Final = 100
_KEY: Final = "example"
_INTRODUCTION: Final = (
    "Pipeline file with one {what} of the plugin {plugin}: {summary}",
    (
        'A line such as `#name = value` is a setting with its default: remove the "#" to change it; of a table such as '
        "`#[name]`, too. Each ${{NAME}} is a blank: replace it by a value, or set the variable NAME of the environment."
    ),
    (
        "`headrace connect lint FILE` reports what is missing or wrong, `headrace connect test FILE` shows {shown}, "
        "and `headrace connect run FILE` runs the connectors."
    ),
)


def source_template(plugins: Plugins, name: str) -> str:
    """Return a pipeline file for a source of this plugin, valid once its blanks are filled.

    Blanks are variables of the environment, so that one that was left is reported when the file is read.

    Raises:
        ConnectorError: There is no such plugin, or it cannot be imported.
    """
    return _template("source", SourceSettings, name, plugins.load("sources", name))


def sink_template(plugins: Plugins, name: str) -> str:
    """Return a pipeline file for a sink, as `source_template`."""
    return _template("sink", SinkSettings, name, plugins.load("sinks", name))


def _template(what: str, settings: type[ConnectorSettings], name: str, kind: type[Source | Sink]) -> str:
    path = (f"{what}s", _KEY)
    shown = "where records would go" if what == "source" else "what would be written"
    words = {"what": what, "shown": shown, "plugin": name, "summary": _summary(kind)}
    lines = [
        *(line for text in _INTRODUCTION for line in _comment(text.format(**words))),
        *_section(ServerSettings, ("server",)),
        "",
        f"[{_dotted(path)}]",
        *_leaves(settings, {"plugin": shown_value(name), "stream": _blank("stream"), "topic": _blank("topic")}),
        *_section(kind.settings_type, (*path, "settings")),
        *_sections(settings, path),
        *_section(HttpSettings, ("http",)),
        *_section(RuntimeSettings, ("runtime",)),
    ]
    return "\n".join(lines) + "\n"


def _summary(kind: type[Any]) -> str:
    """First sentence of the description of a plugin."""
    paragraph = " ".join((inspect.getdoc(kind) or "a connector.").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def _section(model: type[BaseModel], path: Path) -> Iterator[str]:
    """Write a table, with a description of it."""
    yield ""
    yield from _comment(inspect.getdoc(model) or "")
    yield f"[{_dotted(path)}]"
    yield from _leaves(model, {})
    yield from _sections(model, path)


def _sections(model: type[BaseModel], path: Path) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _inner(field)
        if inner is None:
            continue
        for line in _section(inner, (*path, name)):
            # A table that may be left out is a comment as a whole: its settings are needed only if it is there.
            is_off = not field.is_required() and _default_of(field) is None
            yield f"#{line}" if is_off and line and not line.startswith("#") else line


def _leaves(model: type[BaseModel], given: dict[str, str]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if _inner(field) is not None:
            continue
        setting = Setting((name,), field, model)
        yield from _comment(_described(setting, is_given=name in given))
        if name in given:
            yield f"{name} = {given[name]}"
        elif field.is_required():
            yield f"{name} = {_blank(name, field)}"
        else:
            yield f"#{name} = {_default(setting)}"


def _described(setting: Setting, *, is_given: bool) -> str:
    parts = [setting.description]
    if setting.allowed != "text":
        parts.append(f"Allowed: {setting.allowed}.")
    if not is_given and not setting.field.is_required() and _default_of(setting.field) is None:
        parts.append("Not set by default.")
    return " ".join(part for part in parts if part)


def _comment(text: str) -> list[str]:
    text = " ".join(text.split())
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _inner(field: FieldInfo) -> type[BaseModel] | None:
    """Model of a setting that is a table."""
    for part in _alternatives(field.annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _default_of(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True)


def _default(setting: Setting) -> str:
    """Value of a setting that is not set; for one without a default, an example of its form."""
    default = _default_of(setting.field)
    if default is None or isinstance(default, Secret):
        return _form(setting.field.annotation)
    return "{}" if default == {} else shown_value(default)


def _form(annotation: Any) -> str:
    for part in _alternatives(annotation):
        if get_origin(part) is Literal:
            return shown_value(get_args(part)[0])
        if get_origin(part) in (list, tuple):
            return "[]"
        if part in (bool, int, float):
            return {bool: "true", int: "1", float: "1.0"}[part]
    return '"..."'


def _blank(name: str, field: FieldInfo | None = None) -> str:
    text = f'"${{{name.upper()}}}"'
    is_list = field is not None and get_origin(field.annotation) in (list, tuple)
    return f"[{text}]" if is_list else text


def _dotted(path: Path) -> str:
    return ".".join(path)
