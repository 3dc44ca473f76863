"""Description of a file in the metadata of its Parquet footer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def described_in(metadata: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the description in the metadata of a file; empty for files that others have written."""
    prefix = _PREFIX.encode()
    return {
        name.removeprefix(prefix).decode(errors="replace"): value.decode(errors="replace")
        for name, value in metadata.items()
        if name.startswith(prefix)
    }
