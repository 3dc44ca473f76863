"""Tables that the pipeline file of this machine had at the last start of a process of a group."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from headrace_chassis.directories import make_directory, replace_file
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.versions import Family

_log = logging.getLogger(__name__)
_FORMAT: Final = 1
Tables = Mapping[Family, Mapping[str, str]]
"""Digest of each table, by family and key."""


class _File(msgspec.Struct):
    format: int
    tables: dict[Family, dict[str, str]]


class SeenTables:
    """A copy of the pipeline file that is older than those of other machines is no change: it was not edited.

    Args:
        directory: Directory of the states of this machine.
        group: Name of the group.
        file: The pipeline file.
    """

    def __init__(self, directory: Path, group: str, file: Path) -> None:
        name = digest([group, str(file.absolute())])
        self._path = directory / "configuration" / f"seen-{name}.json"
        self._tables = self._read()

    def _read(self) -> Tables | None:
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return None
        except NOT_JSON as error:
            _log.warning("%s cannot be read, and is replaced: %s", self._path, error)
            return None
        return found.tables if found.format == _FORMAT else None

    def has(self, family: Family, key: str, table: str) -> bool:
        """Return True if the file had this table at the last start."""
        return self._tables is not None and self._tables.get(family, {}).get(key) == table

    def never_had(self, family: Family, key: str) -> bool:
        """Return True if it is known that the file had no table of this name at the last start."""
        return self._tables is not None and key not in self._tables.get(family, {})

    def save(self, tables: Tables) -> None:
        """Remember the tables of this start.

        Raises:
            OSError: They cannot be written.
        """
        make_directory(self._path.parent)
        replace_file(self._path, msgspec.json.encode(_File(_FORMAT, {k: dict(v) for k, v in tables.items()})).decode())


def digest(value: object) -> str:
    """Return a digest of a value that can be JSON."""
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).hexdigest()
