"""Loading of a frozen configuration from files, environment and options, reporting all errors at once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from headrace_settings.errors import Problem, SettingsError
from headrace_settings.loading.iggy import read_iggy
from headrace_settings.loading.sources import Collected, read_environment, read_file, read_options
from headrace_settings.origin import DefaultOrigin, Origin
from headrace_settings.section import Path, Setting, settings_of

Config = TypeVar("Config", bound=BaseModel)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded(Generic[Config]):
    """A configuration, and the origin of each of its settings."""

    config: Config
    origins: Mapping[Path, Origin]
    warnings: tuple[str, ...] = ()
    """Warnings about given settings without an effect, for the service's log."""

    def log_warnings(self) -> None:
        """Write the warnings to the log."""
        for warning in self.warnings:
            _log.warning("%s", warning)

    def origin(self, path: Path) -> Origin:
        """Origin of this setting."""
        return self.origins.get(path, DefaultOrigin())


def load(
    model: type[Config],
    *,
    file: FilePath | None = None,
    environment: Mapping[str, str],
    prefix: str = "HEADRACE",
    options: Mapping[str, tuple[str, str]] | None = None,
    aliases: Mapping[str, str] | None = None,
    reserved: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    former: Mapping[str, str] | None = None,
) -> Loaded[Config]:
    """Read every source, later ones winning: defaults, file, variables of Iggy, environment, options.

    Args:
        model: The model to fill.
        file: A TOML file, if any. It must exist.
        environment: Usually ``os.environ``.
        prefix: Prefix of the environment variables, without the underscore.
        options: Per dotted setting name, the option of the command line as typed and its text.
        aliases: Further environment variables and the dotted names of the settings that they stand for.
        reserved: Variables with the prefix that are not settings of this model.
        renamed: Settings of Iggy that have another name here, with this name.
        former: Dotted names of settings in earlier releases, each with the name of the same setting now.

    Raises:
        SettingsError: Settings are unknown or invalid; all of them at once.
    """
    collected = Collected(settings_of(model), former or {})
    if file is not None:
        read_file(collected, file)
    warnings = read_iggy(collected, environment, renamed=renamed or {}, taken=aliases or {})
    read_environment(collected, environment, prefix=prefix, aliases=aliases or {}, reserved=reserved)
    read_options(collected, options or {})
    try:
        config = model.model_validate(_nested(collected.values))
    except ValidationError as error:
        collected.problems.extend(_problems(error, collected))
    if collected.problems:
        raise SettingsError(collected.problems)
    origins = {path: origin for path, (_, origin) in collected.values.items()}
    return Loaded(config, origins, tuple(warnings))


def _nested(values: Mapping[Path, tuple[Any, Origin]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, (value, _) in values.items():
        table = tree
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    return tree


def _problems(error: ValidationError, collected: Collected) -> list[Problem]:
    settings = {setting.path: setting for setting in collected.settings}
    # One setting with alternatives ("a or b") fails once per alternative: the first message is sufficient.
    problems: dict[Path, Problem] = {}
    for details in error.errors(include_url=False, include_input=True):
        path = tuple(part for part in details["loc"] if isinstance(part, str))
        while path and path not in settings and path[:-1] in settings:
            path = path[:-1]
        problems.setdefault(path, _problem(details, path, settings.get(path), collected))
    return list(problems.values())


def _problem(details: ErrorDetails, path: Path, setting: Setting | None, collected: Collected) -> Problem:
    name = ".".join(path) or "settings"
    message = _message(details, setting)
    if setting is None:
        return Problem(name, message)
    _, origin = collected.values.get(path, (None, DefaultOrigin()))
    return Problem(name, message, origin, allowed=setting.allowed)


def _message(details: ErrorDetails, setting: Setting | None) -> str:
    reason = details.get("ctx", {}).get("error")
    if isinstance(reason, ValueError):
        return str(reason)
    if details["type"] == "missing":
        return "is not set and has no default"
    if setting is None or setting.is_secret:
        return details["msg"]
    return f"{details['input']!r} is not {setting.allowed}"
