"""State of an export or import, in a file next to the data, so that the same command continues it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from headrace.cli.errors import CommandError

PYARROW_IS_MISSING: Final = "Parquet needs the package pyarrow: pip install pyarrow"


class FileForm(StrEnum):
    """Form of a file with messages."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES: Final = {
    ".jsonl": FileForm.JSONL,
    ".ndjson": FileForm.JSONL,
    ".json": FileForm.JSONL,
    ".csv": FileForm.CSV,
    ".parquet": FileForm.PARQUET,
}


def form_of(path: Path, chosen: str | None) -> FileForm:
    """Return the form of a file, as chosen or by its suffix.

    Raises:
        CommandError: Neither says it.
    """
    if chosen is not None:
        return FileForm(chosen)
    form = _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise CommandError(
            f"the form of {path} is unclear: give --format, or a suffix of {', '.join(_SUFFIXES)}", status=2
        )
    return form


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file with the state of a transfer."""

    path: Path

    @classmethod
    def beside(cls, data: Path, kind: str) -> StateFile:
        """Return the file for a transfer of a data file."""
        return cls(data.with_name(f"{data.name}.{kind}-state"))

    def load(self, of: dict[str, Any]) -> dict[str, Any] | None:
        """Return the state of an interrupted transfer; None if there is none.

        Args:
            of: What identifies the transfer; the state must be of the same one.

        Raises:
            CommandError: The state is damaged, or of another transfer.
        """
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            before = document["of"]
            state: dict[str, Any] = document["state"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{self.path} is not the state of a transfer: remove it to begin again") from error
        if before != of:
            raise CommandError(
                f"{self.path} is the state of another transfer ({_differences(before, of)}): repeat that command to "
                "finish it, or remove the file to begin again"
            )
        return state

    def save(self, of: dict[str, Any], state: dict[str, Any]) -> None:
        """Replace the state at once: after a crash there is the old one or the new one."""
        temporary = self.path.with_name(self.path.name + ".new")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"of": of, "state": state}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        sync_directory(self.path.parent)

    def remove(self) -> None:
        """Remove the state of a complete transfer."""
        self.path.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Have the names of a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    names: Iterable[str] = dict.fromkeys((*before, *now))
    return ", ".join(
        f"{name} {before.get(name)!r}, now {now.get(name)!r}" for name in names if before.get(name) != now.get(name)
    )
