"""Examples of connectors, `examples/connectors`: a pipeline file for each, with what to do in its first comment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

DIRECTORY: Final = Path(__file__).resolve().parents[3] / "examples" / "connectors"
_PARTS: Final = ("Before", "Then", "Shows", "Check")


class Example(NamedTuple):
    """An example."""

    kind: str
    """``source`` or ``sink``."""
    name: str
    """Name of the plugin."""
    about: str
    """Purpose of the pipeline, in a sentence or two."""
    before: Sequence[str]
    """Commands before it runs."""
    then: Sequence[str]
    """Commands while it runs."""
    shows: Sequence[str]
    """Texts that it prints."""
    check: Sequence[str]
    """Commands that succeed when it has done its work."""
    text: str
    """The pipeline file without its first comment."""

    @property
    def path(self) -> Path:
        """The pipeline file."""
        return DIRECTORY / f"{self.kind}-{self.name}.toml"


def examples() -> list[Example]:
    """Return all examples, sources first."""
    found = [_read(path) for path in sorted(DIRECTORY.glob("*.toml"))]
    return sorted(found, key=lambda example: (example.kind != "source", example.name))


def _read(path: Path) -> Example:
    header, _, text = path.read_text(encoding="utf-8").partition("\n\n")
    parts: dict[str, list[str]] = {name: [] for name in ("About", *_PARTS)}
    part = "About"
    for line in header.splitlines():
        content = line.removeprefix("#").removeprefix(" ")
        if (heading := re.fullmatch(r"(\w+):", content)) is not None and heading[1] in _PARTS:
            part = heading[1]
        elif content:
            parts[part].append(content.removeprefix("  "))
    kind, _, name = path.stem.partition("-")
    return Example(
        kind, name, " ".join(parts["About"]), parts["Before"], parts["Then"], parts["Shows"], parts["Check"], text
    )
