"""Description of a file in the metadata of its Parquet footer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark_headrace.jobs.tables.files import ArchivedFile

_PREFIX: Final = "headrace."
_VERSION: Final = "1"
_DESCRIBED: Final = (
    "stream",
    "topic",
    "partition",
    "incarnation",
    "generation",
    "start",
    "end",
    "rows",
    "digest",
    "first_timestamp",
    "last_timestamp",
    "mode",
)


def footer(file: ArchivedFile) -> dict[str, str]:
    """Create the metadata of a file."""
    described = {name: str(getattr(file, name)) for name in _DESCRIBED} | {"digest": f"{file.digest:016x}"}
    return {_PREFIX + name: value for name, value in {"version": _VERSION, **described}.items()}


def described_in(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the description in the metadata of a file; empty for files that others have written."""
    prefix = _PREFIX.encode()
    return {
        name.removeprefix(prefix).decode(errors="replace"): value.decode(errors="replace")
        for name, value in metadata.items()
        if name.startswith(prefix)
    }
