"""Superblock of a metadata replica, rewritten from outside as another release would write it.

The file has four copies of 16 KiB. Each holds the checksum of its bytes from 32 on, its number, and its fields. One
field is the header of the newest checkpoint's operation, which has its own checksum and the release that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import xxhash

COPIES: Final = 4
COPY_BYTES: Final = 16 * 1024

_VERSION: Final = slice(40, 44)
_CHECKPOINT_HEADER: Final = slice(336, 336 + 256)
_RELEASE: Final = slice(56, 60)
_COPY_SEED: Final = 0x5653_5253_5542_0001
_HEADER_SEED: Final = 0x5653_5248_4452_0001


def path_in(directory: Path) -> Path:
    """Return the path of a replica's superblock."""
    return directory / "superblock"


def set_version(directory: Path, version: int) -> None:
    """Set the format version in all copies."""

    def change(copy: bytearray) -> None:
        copy[_VERSION] = version.to_bytes(4, "little")

    _rewrite(directory, change)


def set_release(directory: Path, major: int, minor: int, patch: int) -> None:
    """Set the release that wrote the newest checkpoint."""

    def change(copy: bytearray) -> None:
        header = copy[_CHECKPOINT_HEADER]
        header[_RELEASE] = (major << 16 | minor << 8 | patch).to_bytes(4, "little")
        header[:16] = _checksum(header[16:], _HEADER_SEED)
        copy[_CHECKPOINT_HEADER] = header

    _rewrite(directory, change)


def copies(directory: Path) -> list[bytes]:
    """Return the content of each copy without its number."""
    found = path_in(directory).read_bytes()
    assert len(found) == COPIES * COPY_BYTES
    return [found[at : at + 16] + found[at + 32 : at + COPY_BYTES] for at in range(0, len(found), COPY_BYTES)]


def _rewrite(directory: Path, change: Callable[[bytearray], None]) -> None:
    contents = bytearray(path_in(directory).read_bytes())
    for at in range(0, len(contents), COPY_BYTES):
        copy = contents[at : at + COPY_BYTES]
        assert copy[:16] == _checksum(copy[32:], _COPY_SEED), "the checksum is another one than this tool knows"
        change(copy)
        copy[:16] = _checksum(copy[32:], _COPY_SEED)
        contents[at : at + COPY_BYTES] = copy
    path_in(directory).write_bytes(contents)


def _checksum(covered: bytes | bytearray, seed: int) -> bytes:
    return xxhash.xxh3_128_intdigest(bytes(covered), seed).to_bytes(16, "little")
