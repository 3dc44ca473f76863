"""Packages that plugins need and that may not be installed: the extras of their distributions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from typing import Final

from headrace_connectors.contract import ConnectorError

_REQUIREMENT: Final = re.compile(r"(?P<package>[A-Za-z0-9._-]+).*;.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_OWN: Final = "headrace"


class MissingPackage(ConnectorError):
    """A package that the plugin needs is not installed."""

    code = "missing_package"


def missing_package(
    plugin: str, error: ImportError, found: Distribution | None, plugins: Collection[str] = ()
) -> MissingPackage | None:
    """Return an error that names the extra to install; None: the distribution has no extra with the missing package.

    Args:
        plugin: Name of the plugin.
        error: Failure of its import.
        found: Distribution of the plugin.
        plugins: Names of all plugins.
    """
    if found is None or not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    extra = _extra_of(plugin, package, found.requires or (), plugins)
    return None if extra is None else MissingPackage(_text(f"plugin {plugin!r}", package, found.name, extra))


def needed(what: str, package: str, extra: str) -> None:
    """Check that a package of an extra of Headrace is installed.

    Args:
        what: Part that needs it, for the message.
        package: The package.
        extra: The extra.

    Raises:
        ValueError: The package is not installed; with the command that installs it.
    """
    if find_spec(package) is None:
        raise ValueError(_text(what, package, distribution(_OWN).name, extra))


def _text(what: str, package: str, name: str, extra: str) -> str:
    return f"{what} needs the package {package}, which is not installed: pip install '{name}[{extra}]'"


def _extra_of(plugin: str, package: str, requirements: Iterable[str], plugins: Collection[str]) -> str | None:
    found = [match for one in requirements if (match := _REQUIREMENT.fullmatch(one)) is not None]
    extras = sorted({one["extra"] for one in found if _folded(one["package"]) == _folded(package)})
    # An extra with the name of another plugin is for that plugin.
    return min(extras, key=lambda extra: (not plugin.startswith(extra), extra in plugins), default=None)


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
