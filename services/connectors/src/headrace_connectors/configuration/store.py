"""Files with versions: one for each connector and mapping, replaced atomically."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Literal

import msgspec

from headrace_chassis.directories import make_directory, replace_file
from headrace_connectors.contract import ConnectorError
from headrace_connectors.versions import VersionLog

_FORMAT: Final = 1
_SUFFIX: Final = ".json"
Family = Literal["connectors", "mappings"]


class _File(msgspec.Struct):
    format: int
    log: msgspec.Raw


class _Format(msgspec.Struct):
    format: int


class VersionStore:
    """The directory with the files. Its owner alone may read them: those of a pipeline file may have secrets.

    A file has all versions of one connector or mapping, and which one is active: both change together, or not at all,
    whenever the process or the machine stops.

    Args:
        path: The directory, within one that the process has locked; created if missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, family: Family) -> dict[str, VersionLog]:
        """Read the files of a family, by key.

        Raises:
            ConnectorError: A file cannot be understood.
            OSError: The directory cannot be used.
        """
        directory = self._path / family
        make_directory(directory)
        return {path.name.removesuffix(_SUFFIX): _read(path) for path in sorted(directory.glob(f"*{_SUFFIX}"))}

    async def save(self, family: Family, log: VersionLog) -> None:
        """Replace the file of a connector or mapping; it is durable when this returns.

        Raises:
            OSError: It cannot be written.
        """
        await asyncio.to_thread(self.save_now, family, log)

    def save_now(self, family: Family, log: VersionLog) -> None:
        """Do as `save`, for a start, while nothing else runs."""
        encoded = msgspec.json.encode(_File(_FORMAT, msgspec.Raw(msgspec.json.encode(log))))
        replace_file(self._path / family / f"{log.key}{_SUFFIX}", encoded.decode())


def _read(path: Path) -> VersionLog:
    encoded = path.read_bytes()
    try:
        found = msgspec.json.decode(encoded, type=_Format).format
        if found != _FORMAT:
            raise ConnectorError(f"{path} has format {found}, this release reads format {_FORMAT}: use the newer one")
        return msgspec.json.decode(msgspec.json.decode(encoded, type=_File).log, type=VersionLog)
    except msgspec.MsgspecError as error:
        raise ConnectorError(
            f"{path} cannot be read: {error}; move it away deliberately to continue with the pipeline file"
        ) from error
