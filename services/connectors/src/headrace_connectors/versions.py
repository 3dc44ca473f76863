"""Versions of one connector or mapping, and which of them is active."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias, get_args

import msgspec

Kind = Literal["sources", "sinks", "mappings"]
"""Table of the pipeline file that a definition belongs to."""
Family = Literal["connectors", "mappings"]
"""Namespace of a name: sources and sinks share theirs."""
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)
Origin = Literal["file", "http"]
VERSIONS_MAX: Final = 1000
"""Versions that are kept; the oldest ones are dropped, except the active one."""


class Author(msgspec.Struct, frozen=True):
    """Author of a change, with the reason."""

    name: str
    comment: str = ""


class Version(msgspec.Struct, frozen=True):
    """One configuration. It never changes."""

    number: int
    """1, 2, and so on; never used again."""
    at: datetime
    author: str
    comment: str
    origin: Origin
    """`file`: found in the pipeline file at a start."""
    kind: Kind
    definition: dict[str, Any] | None
    """Table as in a pipeline file, with references to secrets unresolved; None: a deletion."""


class Activation(msgspec.Struct, frozen=True):
    """A version that became the active one."""

    at: datetime
    number: int
    author: str
    comment: str


class NewVersion(msgspec.Struct, tag="version", frozen=True):
    """Change that makes a version, and puts it into effect."""

    at: datetime
    author: Author
    origin: Origin
    kind: Kind
    definition: dict[str, Any] | None


class Selection(msgspec.Struct, tag="selection", frozen=True):
    """Change that puts a version into effect which is there."""

    at: datetime
    author: Author
    number: int


LogChange: TypeAlias = NewVersion | Selection


class VersionLog(msgspec.Struct, frozen=True):
    """All versions of one connector or mapping. Changes return a new log."""

    key: str
    epoch: int = 0
    """Number of changes of the active version since the first one; it never repeats."""
    last_number: int = 0
    versions: tuple[Version, ...] = ()
    """The oldest first."""
    activations: tuple[Activation, ...] = ()
    """The oldest first; the last one is in effect."""

    @property
    def active(self) -> Version | None:
        """The version in effect; None: there is none yet."""
        return self.find(self.activations[-1].number) if self.activations else None

    @property
    def previous(self) -> Version | None:
        """The version that was active before, and is another one."""
        numbers = (one.number for one in reversed(self.activations) if one.number != self.activations[-1].number)
        return next((found for number in numbers if (found := self.find(number)) is not None), None)

    @property
    def newest_of_file(self) -> Version | None:
        """The newest version that came from the pipeline file."""
        return next((one for one in reversed(self.versions) if one.origin == "file"), None)

    def find(self, number: int) -> Version | None:
        """Return a version; None: there is none with this number."""
        return next((one for one in self.versions if one.number == number), None)

    def after(self, change: LogChange) -> Self | None:
        """Return the log with a change; None: the version that it selects is not there."""
        match change:
            case NewVersion():
                return self.changed(change.at, change.author, change.origin, change.kind, change.definition)
            case Selection():
                is_there = self.find(change.number) is not None
                return self.activated(change.at, change.author, change.number) if is_there else None

    def changed(
        self, at: datetime, author: Author, origin: Origin, kind: Kind, definition: Mapping[str, Any] | None
    ) -> Self:
        """Return the log with one version more, which is active."""
        number = self.last_number + 1
        kept = None if definition is None else dict(definition)
        version = Version(number, at, author.name, author.comment, origin, kind, kept)
        log = msgspec.structs.replace(self, last_number=number, versions=(*self.versions, version))
        return log.activated(at, author, number)

    def activated(self, at: datetime, author: Author, number: int) -> Self:
        """Return the log with another active version."""
        activation = Activation(at, number, author.name, author.comment)
        # Versions that a later start compares the file with are kept, too.
        of_file = self.newest_of_file
        pinned = {number, of_file.number if of_file is not None else number}
        oldest = self.last_number - VERSIONS_MAX
        return msgspec.structs.replace(
            self,
            epoch=self.epoch + 1,
            versions=tuple(one for one in self.versions if one.number > oldest or one.number in pinned),
            activations=(*self.activations, activation)[-VERSIONS_MAX:],
        )

    def bounded(self, versions_max: int, bytes_max: int) -> Self:
        """Return the log with the newest versions alone: at most so many, with definitions of at most so many bytes.

        The active one, the one that was active before and the newest one of the file stay in any case.
        """
        pinned = {one.number for one in (self.active, self.previous, self.newest_of_file) if one is not None}
        kept: list[Version] = []
        size_bytes = 0
        for version in reversed(self.versions):
            size_bytes += len(msgspec.json.encode(version.definition))
            is_within = len(kept) < versions_max and size_bytes <= bytes_max
            if is_within or version.number in pinned:
                kept.append(version)
        return msgspec.structs.replace(
            self, versions=tuple(reversed(kept)), activations=self.activations[-versions_max:]
        )
