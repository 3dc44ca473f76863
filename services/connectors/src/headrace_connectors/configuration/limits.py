"""Limits of changes over HTTP: what they may refer to, and which plugins they may use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final
from urllib.parse import urlsplit

from headrace_connectors.contract import ConnectorError
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Path, Problem

_MARKER: Final = "variable-of-the-environment"
_AMBIGUOUS: Final = ("\\", ",", " ", "\t", "\r", "\n")
"""Characters that programs read differently in a host, or that name several."""
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that the pipeline file allows to changes."""

    variables: Sequence[str] = ()
    """Names of variables of the environment; `*` at the end of a name stands for any rest. `KEY:NAME` is a name for one
    connector alone.
    """
    secrets_directory: FilePath | None = None
    """Directory with a directory for each connector, of the files that its settings `x_file` may name; None: none."""
    plugins: Sequence[str] = ()
    """Names of plugins that use the machine of the process."""
    base: FilePath = FilePath()
    """Directory of the pipeline file, which relative names of files start at."""
    own_variables: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)
    """Names that the pipeline file itself refers to, by the kind and key of the table that does."""
    own_files: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)
    """Names of files that settings `x_file` of the pipeline file itself have, by the kind and key of the table."""
    destinations: Sequence[str] = ()
    """Hosts that a `url` may name; `*` at the beginning stands for any host below a domain; empty: any."""

    def problems(self, kind: str, key: str, definition: Mapping[str, Any], installed: Plugins) -> list[Problem]:
        """Return a problem for each part of a definition that is not allowed. Nothing of its settings is used."""
        return [*self._references(kind, key, definition), *self._plugins(kind, key, definition, installed)]

    def _references(self, kind: str, key: str, definition: Mapping[str, Any]) -> Iterator[Problem]:
        for path, value in _leaves(definition):
            name = ".".join((kind, key, *path))
            if path and path[-1].endswith("_file") and isinstance(value, str) and not self._has(kind, key, value):
                directory = self.secrets_directory
                where = "is not set" if directory is None else f"is {directory}"
                yield Problem(
                    name,
                    f"{value} is no file of {key}: its files are those in the directory {key} of "
                    f"http.configuration.secrets_directory, which {where}, and those that its own table of the "
                    "pipeline file names there",
                )
            if path and path[-1] == "url" and isinstance(value, str) and not self._leads_to_a_destination(value):
                yield Problem(
                    name,
                    "the host is not one of http.configuration.destinations of the pipeline file, or is not written "
                    "out: add it there, or refer to a variable that is the whole url",
                )
            passed = value if path == ("environment",) and isinstance(value, list | tuple) else ()
            for variable in (*variables_in(value), *(name for name in passed if isinstance(name, str))):
                if not self._may_use(kind, key, variable):
                    yield Problem(
                        name,
                        f"the variable {variable} may not be used over HTTP by {key}: add it to "
                        "http.configuration.variables of the pipeline file",
                    )

    def _may_use(self, kind: str, key: str, variable: str) -> bool:
        if variable in self.own_variables.get((kind, key), ()):
            return True
        for pattern in self.variables:
            connector, is_bound, name = pattern.rpartition(":")
            if _matches(variable, name) and (not is_bound or connector == key):
                return True
        return False

    def _leads_to_a_destination(self, url: str) -> bool:
        # The file decides what the variable is.
        if not self.destinations or _VARIABLE.fullmatch(url):
            return True
        try:
            # A variable within the host would be the marker.
            parts = urlsplit(_VARIABLE.sub(_MARKER, url))
            host = parts.hostname
        except ValueError:
            return False
        if not host or _MARKER in host or _MARKER in parts.scheme or any(one in url for one in _AMBIGUOUS):
            return False
        return any(
            host.endswith(pattern[1:].lower()) if pattern.startswith("*.") else host == pattern.lower()
            for pattern in self.destinations
        )

    def _has(self, kind: str, key: str, file: str) -> bool:
        found = self._file(file)
        if self.secrets_directory is None or found is None:
            return False
        directory = self.secrets_directory.resolve()
        if directory not in found.parents:
            return False
        return directory / key in found.parents or any(
            self._file(own) == found for own in self.own_files.get((kind, key), ())
        )

    def _file(self, name: str) -> FilePath | None:
        """Return the file that is read for a name; None: there is none, or a variable decides."""
        if _VARIABLE.search(name):
            return None
        try:
            return (self.base / FilePath(name).expanduser()).resolve()
        except (RuntimeError, ValueError):
            # There is no such user, or no file can have the name.
            return None

    def _plugins(self, kind: str, key: str, definition: Mapping[str, Any], installed: Plugins) -> Iterator[Problem]:
        if kind == "mappings":
            return
        for path, family, name in _plugins_of(kind, definition):
            try:
                uses_host = installed.load(family, name).uses_host
            except ConnectorError:
                # The check of the definition reports it.
                continue
            if uses_host and name not in self.plugins:
                yield Problem(
                    ".".join((kind, key, *path)),
                    f"{name} runs code, or uses files, of the machine of the process, so it may not be used over HTTP: "
                    "add it to http.configuration.plugins of the pipeline file",
                )


def variables_in(value: Any) -> Iterator[str]:
    """Return the names of the variables that a value refers to."""
    if isinstance(value, str):
        yield from _VARIABLE.findall(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from variables_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from variables_in(inner)


def files_in(table: Mapping[str, Any]) -> Iterator[str]:
    """Return the names of the files that settings `x_file` of a table have."""
    for path, value in _leaves(table):
        if path[-1].endswith("_file") and isinstance(value, str):
            yield value


def _plugins_of(kind: str, definition: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    yield ("plugin",), kind, str(definition.get("plugin", ""))
    yield ("codec",), "codecs", str(definition.get("codec", "json"))
    transforms = definition.get("transforms")
    for name, table in (transforms if isinstance(transforms, Mapping) else {}).items():
        plugin = table.get("plugin", name) if isinstance(table, Mapping) else name
        yield ("transforms", name), "transforms", str(plugin)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    else:
        yield path, value
