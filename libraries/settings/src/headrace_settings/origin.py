"""Origins of values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """A line of a TOML file; without a line number if it is not known."""

    file: Path
    line: int | None

    def __str__(self) -> str:
        return f"{self.file} line {self.line}" if self.line else str(self.file)


@dataclass(frozen=True, slots=True)
class EnvironmentOrigin:
    """An environment variable."""

    variable: str

    def __str__(self) -> str:
        return f"environment {self.variable}"


@dataclass(frozen=True, slots=True)
class OptionOrigin:
    """An option of the command line."""

    option: str

    def __str__(self) -> str:
        return f"option {self.option}"


@dataclass(frozen=True, slots=True)
class DefaultOrigin:
    """The default, as no source sets the value."""

    def __str__(self) -> str:
        return "default"


Origin = FileOrigin | EnvironmentOrigin | OptionOrigin | DefaultOrigin
