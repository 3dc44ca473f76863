"""Description of a file in the metadata of its Parquet footer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def footer(described: Mapping[str, Any]) -> dict[str, str]:
    """Create the metadata of a file.

    Args:
        described: Fields of `ArchivedFile`, as JSON values.
    """
    return {f"{_PREFIX}version": _VERSION} | {_PREFIX + name: str(described[name]) for name in _DESCRIBED}


def differences(metadata: Mapping[bytes, bytes], file: ArchivedFile) -> list[str]:
    """Compare the metadata of a file with the log. Each returned text names one difference."""
    expected = footer(file.to_json())
    found = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in metadata.items()
        if name.startswith(_PREFIX.encode())
    }
    return [
        f"{name.removeprefix(_PREFIX)} is {found.get(name)} in its footer, and {expected.get(name)} in the log"
        for name in sorted({*expected, *found})
        if found.get(name) != expected.get(name)
    ]
