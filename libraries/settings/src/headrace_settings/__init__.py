"""Typed settings: defaults, then a TOML file, then the environment, then options, into frozen models."""

from headrace_settings.constraints import (
    Between,
    Constraint,
    MultipleOf,
    NotServerDefault,
    ServerExpiry,
)
from headrace_settings.display.listing import ShownSetting, listed
from headrace_settings.display.rendering import json_schema, to_comparison, to_markdown, to_toml
from headrace_settings.errors import Problem, SettingsError
from headrace_settings.loading.loading import Loaded, load
from headrace_settings.origin import (
    DefaultOrigin,
    EnvironmentOrigin,
    FileOrigin,
    OptionOrigin,
    Origin,
)
from headrace_settings.section import Path, Section, Setting, settings_of
from headrace_settings.sharing import SharedBy
from headrace_settings.units.address import Address
from headrace_settings.units.duration import Duration, Expiry
from headrace_settings.units.secret import Secret
from headrace_settings.units.size import Size, SizeLimit, parse_size, print_size

__all__ = [
    "Address",
    "Between",
    "Constraint",
    "DefaultOrigin",
    "Duration",
    "EnvironmentOrigin",
    "Expiry",
    "FileOrigin",
    "Loaded",
    "MultipleOf",
    "NotServerDefault",
    "OptionOrigin",
    "Origin",
    "Path",
    "Problem",
    "Secret",
    "Section",
    "ServerExpiry",
    "Setting",
    "SettingsError",
    "SharedBy",
    "ShownSetting",
    "Size",
    "SizeLimit",
    "json_schema",
    "listed",
    "load",
    "parse_size",
    "print_size",
    "settings_of",
    "to_comparison",
    "to_markdown",
    "to_toml",
]
