"""Plugins that are installed, found by their entry points."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from headrace_connectors.contract import CONTRACT_VERSION, GROUPS, Codec, ConnectorError, Sink, Source, Transform
from headrace_connectors.plugins.extras import missing_package

_GROUP: Final = re.compile(r"headrace_connectors\.v([0-9]+)\.([a-z]+)")
_BASES: Final[dict[str, type[Any]]] = {"sources": Source, "sinks": Sink, "transforms": Transform, "codecs": Codec}


class InstalledPlugin(NamedTuple):
    """A plugin of an installed distribution. Nothing of it has been imported."""

    kind: str
    """``sources``, ``sinks``, ``transforms`` or ``codecs``."""
    name: str
    distribution: str
    version: str
    """Version of the distribution."""
    contract: int
    """Version of the contract that it is written for."""


class UnknownPlugin(ConnectorError):
    """No installed distribution has such a plugin."""

    code = "unknown_plugin"


class IncompatiblePlugin(ConnectorError):
    """The plugin is written for another version of the contract. None of its code was imported."""

    code = "incompatible_plugin"

    def __init__(self, name: str, distribution: str, version: int) -> None:
        super().__init__(
            f"plugin {name!r} of {distribution} is written for version {version} of the contract; this runtime "
            f"has version {CONTRACT_VERSION}: install a release of {distribution} for version {CONTRACT_VERSION}"
        )
        self.version = version
        self.expected = CONTRACT_VERSION


def _installed() -> Iterator[EntryPoint]:
    found = entry_points()
    for group in found.groups:
        yield from found.select(group=group)


class Plugins:
    """Installed plugins, by kind and name."""

    def __init__(self, found: Iterable[EntryPoint] | None = None) -> None:
        """Look for plugins; nothing of them is imported.

        Args:
            found: Entry points in place of the installed ones.
        """
        self._loadable: dict[tuple[str, str], EntryPoint] = {}
        self._incompatible: dict[tuple[str, str], IncompatiblePlugin] = {}
        self._installed: set[InstalledPlugin] = set()
        for entry in _installed() if found is None else found:
            group = _GROUP.fullmatch(entry.group)
            if group is None:
                continue
            version, kind = int(group[1]), group[2]
            distribution = entry.dist.name if entry.dist is not None else entry.value.partition(".")[0]
            release = entry.dist.version if entry.dist is not None else "unknown"
            self._installed.add(InstalledPlugin(kind, entry.name, distribution, release, version))
            if entry.group == GROUPS.get(kind):
                self._loadable.setdefault((kind, entry.name), entry)
            elif version != CONTRACT_VERSION:
                self._incompatible[kind, entry.name] = IncompatiblePlugin(entry.name, distribution, version)

    def names(self, kind: str) -> list[str]:
        """Names of the plugins of a kind: ``sources``, ``sinks``, ``transforms`` or ``codecs``."""
        return sorted(name for of_kind, name in self._loadable if of_kind == kind)

    def installed(self) -> list[InstalledPlugin]:
        """All plugins by kind and name, also those that are written for another version of the contract."""
        kinds = list(GROUPS)
        known = (one for one in self._installed if one.kind in kinds)
        return sorted(known, key=lambda one: (kinds.index(one.kind), *one[1:]))

    def load(self, kind: str, name: str) -> type[Any]:
        """Import a plugin and return its class.

        Raises:
            UnknownPlugin: There is none.
            IncompatiblePlugin: It is written for another version of the contract.
            MissingPackage: An extra of its distribution is not installed.
            ConnectorError: It cannot be imported, or is of another kind.
        """
        entry = self._loadable.get((kind, name))
        if entry is None:
            if (refusal := self._incompatible.get((kind, name))) is not None:
                raise refusal
            raise UnknownPlugin(self._missing(kind, name))
        try:
            loaded = entry.load()
        except Exception as error:
            names = {found for _, found in self._loadable}
            if isinstance(error, ImportError) and (missing := missing_package(name, error, entry.dist, names)):
                raise missing from error
            raise ConnectorError(f"plugin {name!r} cannot be imported from {entry.value}: {error}") from error
        base = _BASES[kind]
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise ConnectorError(f"plugin {name!r}: {entry.value} is not a subclass of {base.__name__}")
        return loaded

    def _missing(self, kind: str, name: str) -> str:
        text = f"{name!r} is not a plugin of {kind}"
        others = [of_kind for of_kind, found in self._loadable if found == name]
        if others:
            return f"{text}; it is one of {', '.join(sorted(others))}"
        nearest = difflib.get_close_matches(name, self.names(kind), n=1, cutoff=0.6)
        if nearest:
            return f"{text}; did you mean {nearest[0]}?"
        return f"{text}; installed: {', '.join(self.names(kind)) or 'none'}"
