"""State files: one for each source, replaced atomically."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol, Self

import msgspec

from headrace_chassis.directories import locked, make_directory, replace_file
from headrace_connectors.contract import ConnectorError
from headrace_connectors.json_errors import NOT_JSON

_FORMAT: Final = 1


class LoadState(Protocol):
    """Reading of the states of sources."""

    async def load(self, key: str, plugin: str) -> bytes | None:
        """Return the state of a source; None if there is none."""


class States(LoadState, Protocol):
    """Storage of the states of sources."""

    async def save(self, key: str, plugin: str, state: bytes) -> None:
        """Replace the state of a source; it is durable when this returns."""


class _File(msgspec.Struct):
    format: int
    source: str
    plugin: str
    state: msgspec.Raw


class StateStore:
    """The directory of the state files, used by one process at a time.

    A file is written beside the old one, synced, and renamed over it, and the name is synced: whenever the process or
    the machine stops, the state is the previous one or the new one, and whole.
    """

    def __init__(self, path: Path) -> None:
        """Use `opened` or `unlocked`."""
        self._path = path

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Lock the directory for the duration of a ``with`` block; create it if missing.

        Raises:
            DirectoryInUse: Another process uses it.
            OSError: It cannot be created.
        """
        make_directory(path)
        with locked(path):
            yield cls(path)

    @classmethod
    def unlocked(cls, path: Path) -> Self:
        """Return the directory for `load` alone, which another process may use at the same time."""
        return cls(path)

    def path(self, key: str) -> Path:
        """File with the state of a source."""
        return self._path / f"{key}.state.json"

    async def load(self, key: str, plugin: str) -> bytes | None:
        """Return the state of a source; None if there is none.

        Raises:
            ConnectorError: The file cannot be read, or is of another plugin.
            OSError: It cannot be read from the disk.
        """
        path = self.path(key)
        try:
            encoded = await asyncio.to_thread(path.read_bytes)
        except FileNotFoundError:
            return None
        try:
            stored = msgspec.json.decode(encoded, type=_File)
        except NOT_JSON as error:
            raise ConnectorError(f"{path} cannot be read: {error}; remove it deliberately to start over") from error
        if stored.format != _FORMAT:
            raise ConnectorError(f"{path} has format {stored.format}, this release reads format {_FORMAT}")
        if stored.plugin != plugin:
            raise ConnectorError(
                f"{path} is the state of plugin {stored.plugin!r}, and the source {key!r} is of plugin {plugin!r} now: "
                "give the source another name, or remove the file deliberately"
            )
        return bytes(stored.state)

    async def save(self, key: str, plugin: str, state: bytes) -> None:
        """Replace the state of a source; it is durable when this returns.

        Raises:
            OSError: It cannot be written.
        """
        text = msgspec.json.encode(_File(_FORMAT, key, plugin, msgspec.Raw(state))).decode()
        await asyncio.to_thread(replace_file, self.path(key), text)
