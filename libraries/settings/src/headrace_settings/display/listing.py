"""A configuration as a list for display: every setting with its value, its origin and its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from headrace_settings.display.rendering import shown_value
from headrace_settings.origin import DefaultOrigin, Origin
from headrace_settings.section import Path, settings_of
from headrace_settings.units.secret import Secret


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting in force."""

    name: str
    """Dotted name, as in a file: ``http.address``."""
    value: str | None
    """Value in the form of TOML. None: not set, or a secret."""
    is_set: bool
    """True if there is a value, displayed or not."""
    is_secret: bool
    is_default: bool
    """True if no source sets it."""
    origin: str
    """Origin of the value."""
    variable: str
    """Name of the environment variable that sets it."""
    description: str
    allowed: str


def listed(
    config: BaseModel, *, origins: Mapping[Path, Origin] | None = None, prefix: str = "HEADRACE"
) -> list[ShownSetting]:
    """List the settings of a configuration in the order of its fields, without secrets."""
    shown = []
    for setting in settings_of(type(config)):
        value: object = config
        for name in setting.path:
            value = getattr(value, name)
        origin = (origins or {}).get(setting.path, DefaultOrigin())
        is_hidden = value is None or isinstance(value, Secret)
        shown.append(
            ShownSetting(
                name=setting.dotted,
                value=None if is_hidden else shown_value(value),
                is_set=value is not None,
                is_secret=setting.is_secret,
                is_default=isinstance(origin, DefaultOrigin),
                origin=str(origin),
                variable=setting.variable(prefix),
                description=setting.description,
                allowed=setting.allowed,
            )
        )
    return shown
