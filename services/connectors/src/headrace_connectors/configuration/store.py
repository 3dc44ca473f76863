"""Storage of versions: in files, in the topic of a group, or for this run alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from headrace_chassis.directories import make_directory, replace_file
from headrace_connectors.configuration.errors import ChangedMeanwhile, NotStored, TooLarge
from headrace_connectors.contract import ConnectorError
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.leases.ledger import encode_change
from headrace_connectors.leases.member import GroupMember
from headrace_connectors.versions import FAMILIES, Family, LogChange, VersionLog

_FORMAT: Final = 1
_SUFFIX: Final = ".json"
# A snapshot of the ledger of a group is one message, which has all of them.
_CHANGE_BYTES_MAX: Final = 1 << 20
_ALL_BYTES_MAX: Final = 8 << 20


class Versions(Protocol):
    """Versions of all connectors and mappings, and changes of them."""

    def logs(self, family: Family) -> Mapping[str, VersionLog]:
        """Return the versions of a family, by key."""

    async def catch_up(self) -> None:
        """Read what others have changed.

        Raises:
            Unavailable: It cannot be read now.
        """

    async def put(self, family: Family, log: VersionLog, change: LogChange) -> VersionLog:
        """Make a change of a log, and return it; it is durable when this returns.

        Raises:
            ChangedMeanwhile: Another process has changed it: nothing was changed.
            TooLarge: There is no space for it: nothing was changed.
            NotStored: It cannot be written: nothing was changed.
            Unavailable: It is not known whether it was changed.
        """


class LocalVersions:
    """Versions of this run."""

    def __init__(self) -> None:
        self._logs: dict[Family, dict[str, VersionLog]] = {family: {} for family in FAMILIES}

    def logs(self, family: Family) -> Mapping[str, VersionLog]:
        """Return the versions of a family, by key."""
        return self._logs[family]

    async def catch_up(self) -> None:
        """Do nothing: no other process changes them."""

    async def put(self, family: Family, log: VersionLog, change: LogChange) -> VersionLog:
        """Make a change of a log, as `Versions`."""
        changed = _changed(log, change)
        try:
            await asyncio.to_thread(self._save, family, changed)
        except OSError as error:
            raise NotStored(f"nothing has changed, as the change cannot be written: {error}") from error
        self._logs[family][log.key] = changed
        return changed

    def put_now(self, family: Family, log: VersionLog, change: LogChange) -> None:
        """Do as `put`, for a start, while nothing else runs."""
        changed = _changed(log, change)
        self._save(family, changed)
        self._logs[family][log.key] = changed

    def _save(self, family: Family, log: VersionLog) -> None:
        """Make a log durable."""


class _File(msgspec.Struct):
    format: int
    log: msgspec.Raw


class _Format(msgspec.Struct):
    format: int


class VersionStore(LocalVersions):
    """The directory with the files. Its owner alone may read them: those of a pipeline file may have secrets.

    A file has all versions of one connector or mapping, and which one is active: both change together, or not at all,
    whenever the process or the machine stops.

    Args:
        path: The directory, within one that the process has locked; created if missing.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load(self) -> None:
        """Read the files.

        Raises:
            ConnectorError: A file cannot be understood.
            OSError: The directory cannot be used.
        """
        for family in FAMILIES:
            directory = self._path / family
            make_directory(directory)
            files = sorted(directory.glob(f"*{_SUFFIX}"))
            self._logs[family] = {path.name.removesuffix(_SUFFIX): _read(path) for path in files}

    def _save(self, family: Family, log: VersionLog) -> None:
        encoded = msgspec.json.encode(_File(_FORMAT, msgspec.Raw(msgspec.json.encode(log))))
        replace_file(self._path / family / f"{log.key}{_SUFFIX}", encoded.decode())


class GroupVersions:
    """Versions in the topic of a group: one history for all of its processes.

    A change is one message, so that it is there as a whole or not at all. It has no effect if the versions have changed
    since they were read.

    Args:
        member: The own process.
    """

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    def logs(self, family: Family) -> Mapping[str, VersionLog]:
        """Return the versions of a family, by key, as far as this process has read."""
        return self._member.versions(family)

    async def catch_up(self) -> None:
        """Read the topic to its end: what is appended now comes after everything that was answered."""
        await self._member.renew()

    async def put(self, family: Family, log: VersionLog, change: LogChange) -> VersionLog:
        """Make a change of a log, as `Versions`."""
        size_bytes = len(encode_change(change))
        if size_bytes > _CHANGE_BYTES_MAX:
            raise TooLarge(
                f"the definition of {log.key} has {size_bytes} bytes, and a change in a group {_CHANGE_BYTES_MAX} at "
                "most: make it smaller, such as by several mappings"
            )
        if size_bytes + self._size_bytes() > _ALL_BYTES_MAX:
            raise TooLarge(
                f"the versions of all connectors and mappings of the group would have more than {_ALL_BYTES_MAX} "
                "bytes: make the largest definitions smaller, so that their older versions are dropped"
            )
        if not await self._member.configure(family, log, change):
            raise ChangedMeanwhile(
                f"{log.key} was changed by another process at the same time: read it again, and repeat the change if "
                "it is still right"
            )
        return self.logs(family)[log.key]

    def _size_bytes(self) -> int:
        return sum(len(msgspec.json.encode(log)) for family in FAMILIES for log in self.logs(family).values())


def _changed(log: VersionLog, change: LogChange) -> VersionLog:
    changed = log.after(change)
    if changed is None:
        raise AssertionError("a version is looked up before it is selected")
    return changed


def _read(path: Path) -> VersionLog:
    encoded = path.read_bytes()
    try:
        found = msgspec.json.decode(encoded, type=_Format).format
        if found != _FORMAT:
            raise ConnectorError(f"{path} has format {found}, this release reads format {_FORMAT}: use the newer one")
        return msgspec.json.decode(msgspec.json.decode(encoded, type=_File).log, type=VersionLog)
    except NOT_JSON as error:
        raise ConnectorError(
            f"{path} cannot be read: {error}; move it away deliberately to continue with the pipeline file"
        ) from error
