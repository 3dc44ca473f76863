"""Rendering of a configuration: as TOML without its secrets, as JSON schema, as a page of documentation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from headrace_settings.origin import DefaultOrigin, Origin
from headrace_settings.section import Path, Setting, settings_of
from headrace_settings.units.quantity import Quantity
from headrace_settings.units.secret import Secret


def to_toml(config: BaseModel, *, origins: Mapping[Path, Origin] | None = None) -> str:
    """Write a configuration as TOML that can be loaded again, except for its secrets.

    Args:
        config: The configuration.
        origins: If given, every setting that is not a default carries its origin as a comment.
    """
    lines: list[str] = []
    _write_table(config, (), lines, origins or {})
    return "\n".join(lines).strip() + "\n"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON schema of the TOML file."""
    return model.model_json_schema(mode="serialization")


def to_markdown(model: type[BaseModel], *, prefix: str = "HEADRACE") -> str:
    """Render one table of settings per section: name, variable, default, meaning and allowed values."""
    lines: list[str] = []
    section: Path | None = None
    for setting in settings_of(model):
        if setting.path[:-1] != section:
            section = setting.path[:-1]
            lines += ["", f"## `{'.'.join(section)}`" if section else "## Top level", ""]
            lines += ["| setting | environment | default | meaning |", "| --- | --- | --- | --- |"]
        lines.append(_row(f"`{setting.dotted}`", _variable(setting, prefix), _default(setting), _meaning(setting)))
    return "\n".join(lines).strip() + "\n"


def to_comparison(processes: Mapping[str, tuple[type[BaseModel], str]]) -> str:
    """Render one table of settings per section, with a column for each process: its default, or nothing.

    A setting with another meaning in another process has another row. The variable is that of the first process of the
    row.

    Args:
        processes: Titles of the columns, each with the configuration and the prefix of its variables.
    """
    sections: dict[Path, dict[str, dict[str, tuple[str, dict[str, str]]]]] = {}
    for title, (model, prefix) in processes.items():
        for setting in settings_of(model):
            rows = sections.setdefault(setting.path[:-1], {}).setdefault(setting.dotted, {})
            _, defaults = rows.setdefault(_meaning(setting), (_variable(setting, prefix), {}))
            defaults[title] = _default(setting)
    head = _row("setting", "environment", *processes, "meaning")
    lines: list[str] = []
    for section, settings in sections.items():
        lines += ["", f"## `{'.'.join(section)}`" if section else "## Top level", ""]
        lines += [head, _row(*["---"] * (len(processes) + 3))]
        for dotted, rows in settings.items():
            for meaning, (variable, defaults) in rows.items():
                lines.append(_row(f"`{dotted}`", variable, *(defaults.get(title, "") for title in processes), meaning))
    return "\n".join(lines).strip() + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _variable(setting: Setting, prefix: str) -> str:
    return f"`{setting.variable(prefix)}`" + (" (also `…_FILE`)" if setting.is_secret else "")


def _meaning(setting: Setting) -> str:
    allowed = "" if setting.allowed == "text" else f" *Allowed: {setting.allowed}.*"
    shared = "" if setting.shared_by is None else f" *Shared by: {setting.shared_by}.*"
    return f"{setting.description}{allowed}{shared}"


def shown_value(value: object) -> str:
    """Value in the form of TOML, without secrets."""
    return _toml(value)


def _write_table(table: BaseModel, path: Path, lines: list[str], origins: Mapping[Path, Origin]) -> None:
    values = {name: getattr(table, name) for name in type(table).model_fields}
    leaves = {name: value for name, value in values.items() if not isinstance(value, BaseModel)}
    if leaves and path:
        lines += ["", f"[{'.'.join(path)}]"]
    for name, value in leaves.items():
        origin = origins.get((*path, name), DefaultOrigin())
        comment = "" if isinstance(origin, DefaultOrigin) else f"  # {origin}"
        lines.append(_line(name, value, comment))
    for name, value in values.items():
        if isinstance(value, BaseModel):
            _write_table(value, (*path, name), lines, origins)


def _line(name: str, value: object, comment: str) -> str:
    if isinstance(value, Secret):
        return f"# {name} is set, but not shown{comment}"
    if value is None:
        return f"# {name} is not set{comment}"
    return f"{name} = {_toml(value)}{comment}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, BaseModel):
        fields = ((name, getattr(value, name)) for name in type(value).model_fields)
        shown = (f"{name} = {_toml(item)}" for name, item in fields if _is_shown(item))
        return "{ " + ", ".join(shown) + " }"
    # A JSON string is a TOML string, except for the one control character that JSON does not escape.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_shown(value: object) -> bool:
    return value is not None and not isinstance(value, Secret)


def _default(setting: Setting) -> str:
    default = setting.field.get_default(call_default_factory=False)
    if default is PydanticUndefined or default is None:
        return "not set"
    if isinstance(default, Secret):
        return "a secret" if default else "not set"
    if isinstance(default, Quantity):
        return f"`{default}`"
    return f"`{_toml(default)}`" if not isinstance(default, str) else f"`{default}`"
