"""Secrets in definitions: which texts are secrets, and what is shown of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel

from headrace_connectors.contract import ConnectorError
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Path, Problem, Secret

REDACTED: Final = "[redacted]"
"""Text in place of a secret."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PASSWORD_PARAMETER: Final = re.compile(r"(?i)(?:^|[?&\s;])(?:password|sslpassword|token|secret)\s*=\s*([^&\s;]*)")
_SETTINGS: Final = (("settings", "plugin"), ("codec_settings", "codec"))
_PLUGINS_OF: Final = {"plugin": "", "codec": "codecs"}


def is_by_reference(text: str) -> bool:
    """Return whether a secret is written without its secret part, which a variable holds.

    Examples:
        >>> is_by_reference("${TOKEN}"), is_by_reference("hunter2")
        (True, False)
        >>> is_by_reference("postgresql://shop:${PASSWORD}@db/shop"), is_by_reference("postgresql://shop:x@db/shop")
        (True, False)
    """
    if not _VARIABLE.sub("", text).strip():
        return True
    # Names of variables may not be taken for parts of an address.
    marked = _VARIABLE.sub("\0", text)
    if "://" not in marked:
        return False
    try:
        password = urlsplit(marked).password
    except ValueError:
        return False
    parameters = _PASSWORD_PARAMETER.findall(marked)
    return all(not part.replace("\0", "") for part in (password or "", *parameters))


def redacted(kind: str, definition: Mapping[str, Any], plugins: Plugins) -> dict[str, Any]:
    """Return a definition to be shown: secrets that are written out are replaced by a placeholder."""

    def hidden(value: Any, _path: Path) -> Any:
        return value if isinstance(value, str) and is_by_reference(value) else REDACTED

    return _mapped(kind, definition, plugins, hidden)


def written_out(kind: str, key: str, definition: Mapping[str, Any], plugins: Plugins) -> list[Problem]:
    """Return a problem for each secret that is written out: versions are kept, and shown."""
    return [
        Problem(
            ".".join((kind, key, *path)),
            "is a secret, which a configuration over HTTP only refers to: write ${NAME} of a variable of the "
            f"connectors' environment in place of it, or {path[-1]}_file",
        )
        for path in paths_written_out(kind, definition, plugins)
    ]


def paths_written_out(kind: str, definition: Mapping[str, Any], plugins: Plugins) -> list[Path]:
    """Return where a definition has secrets themselves, and not references to them."""
    found: list[Path] = []

    def noted(value: Any, path: Path) -> Any:
        if isinstance(value, str) and not is_by_reference(value):
            found.append(path)
        return value

    _mapped(kind, definition, plugins, noted)
    return found


def _mapped(
    kind: str, definition: Mapping[str, Any], plugins: Plugins, change: Callable[[Any, Path], Any]
) -> dict[str, Any]:
    """Return a definition with `change` of each secret in the settings of its plugins."""
    if kind == "mappings":
        return dict(definition)
    made = dict(definition)
    for settings, name in _SETTINGS:
        if isinstance(made.get(settings), Mapping):
            model = _model(plugins, _PLUGINS_OF[name] or kind, made.get(name, "json"))
            made[settings] = _of_model(model, made[settings], (settings,), change)
    transforms = made.get("transforms")
    if isinstance(transforms, Mapping):
        made["transforms"] = {
            name: _of_model(
                _model(plugins, "transforms", table.get("plugin", name)), table, ("transforms", name), change
            )
            if isinstance(table, Mapping)
            else table
            for name, table in transforms.items()
        }
    return made


def _model(plugins: Plugins, kind: str, name: Any) -> type[BaseModel] | None:
    try:
        model: type[BaseModel] = plugins.load(kind, str(name)).settings_type
    except ConnectorError:
        return None
    return model


def _of_model(
    model: type[BaseModel] | None, table: Mapping[str, Any], path: Path, change: Callable[[Any, Path], Any]
) -> dict[str, Any]:
    made = {}
    for name, value in table.items():
        where = (*path, name)
        field = model.model_fields.get(name) if model is not None else None
        parts = () if field is None else (field.annotation, *get_args(field.annotation))
        inner = next((one for one in parts if isinstance(one, type) and issubclass(one, BaseModel)), None)
        if model is None:
            # The plugin is not installed any more: any text may be a secret.
            made[name] = _each(value, where, change)
        elif Secret in parts:
            made[name] = _each(value, where, change)
        elif isinstance(value, Mapping) and inner is not None:
            made[name] = _of_model(inner, value, where, change)
        else:
            made[name] = value
    return made


def _each(value: Any, path: Path, change: Callable[[Any, Path], Any]) -> Any:
    if isinstance(value, str):
        return change(value, path)
    if isinstance(value, Mapping):
        return {name: _each(inner, (*path, name), change) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_each(inner, path, change) for inner in value]
    return value
