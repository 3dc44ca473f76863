"""Tokens that were given back before their time, also over a restart.

The file has a line for each: expiry, id in hexadecimal digits, checksum. Lines are added, so that giving a token back
costs the same however many there are; now and then the file is written anew without those that have expired anyway.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path
from typing import Final

from headrace_shards.folders import make_folder, replace_file, sync_folder

_Revoked = dict[str, int]

# The file is written anew when it has twice as many lines as it had then, and so many more.
_SPARE_LINES: Final = 256


class RevocationsFile:
    """Ids of revoked tokens, until they would have expired anyway."""

    def __init__(self, file: Path, revoked: _Revoked, *, lines_count: int = 0, size_bytes: int = 0) -> None:
        self._file = file
        self._revoked = revoked
        # Whole lines of the file, behind which there may be one that a crash has torn off.
        self._lines_count = lines_count
        self._size_bytes = size_bytes
        self._lines_max = 2 * lines_count + _SPARE_LINES
        self._unwritten: list[bytes] = []
        self._writing = asyncio.Lock()

    @classmethod
    def open(cls, file: Path) -> RevocationsFile:
        """Read what earlier runs have revoked.

        Raises:
            OSError: The file is there and cannot be read.
            ValueError: It is not what it should be. Going on would let revoked tokens in again.
        """
        try:
            contents = file.read_bytes()
        except FileNotFoundError:
            return cls(file, {})
        # Its name may be that of a file that a killed process has just put in the place of another.
        sync_folder(file.parent)
        whole, newline, _torn = contents.rpartition(b"\n")
        lines = whole.split(b"\n") if newline else []
        try:
            revoked = dict(map(_parsed, lines))
        except ValueError as error:
            raise ValueError(f"{file} does not hold revoked tokens: {error}") from error
        return cls(file, revoked, lines_count=len(lines), size_bytes=len(whole) + len(newline))

    def holds(self, token_id: str) -> bool:
        """Whether this token was revoked."""
        return token_id in self._revoked

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:
        """Revoke a token from now on; when this returns, over a crash as well.

        Args:
            token_id: Whose.
            expires_at: When it would end by itself (Unix seconds).
            expired_before: Tokens that have ended before then (Unix seconds) need not be remembered.

        Returns:
            Whether it was good until now.
        """
        was_good = token_id not in self._revoked
        self._revoked[token_id] = expires_at
        self._unwritten.append(_line(token_id, expires_at))
        # Who does not wait any longer does not stop what others wait for.
        await asyncio.shield(self._write(expired_before))
        return was_good

    async def _write(self, expired_before: int) -> None:
        async with self._writing:
            lines, self._unwritten = self._unwritten, []
            if not lines:
                # They went with those of somebody else.
                return
            try:
                if self._lines_count + len(lines) > self._lines_max:
                    self._forget(expired_before)
                    # Until that has worked nobody knows how long the file is: it is tried again.
                    self._lines_max = -1
                    lines = [_line(*entry) for entry in self._revoked.items()]
                    await asyncio.to_thread(self._replace, b"".join(lines))
                    self._lines_count = self._size_bytes = 0
                    self._lines_max = 2 * len(lines) + _SPARE_LINES
                else:
                    await asyncio.to_thread(self._append, b"".join(lines), self._size_bytes)
            except BaseException:
                self._unwritten = lines + self._unwritten
                raise
            self._lines_count += len(lines)
            self._size_bytes += sum(map(len, lines))

    def _forget(self, expired_before: int) -> None:
        for token_id in [token_id for token_id, expires_at in self._revoked.items() if expires_at < expired_before]:
            del self._revoked[token_id]

    def _append(self, lines: bytes, position: int) -> None:
        if position == 0:
            self._replace(lines)
            return
        with self._file.open("r+b") as file:
            # Over what a crash, or a write that failed, has left behind the last whole line.
            file.seek(position)
            file.write(lines)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())

    def _replace(self, lines: bytes) -> None:
        make_folder(self._file.parent)
        replace_file(self._file, lines.decode("ascii"))


def _line(token_id: str, expires_at: int) -> bytes:
    # Who has the secret may make tokens with any id.
    entry = b"%d %s" % (expires_at, token_id.encode("utf-8", "surrogatepass").hex().encode())
    return b"%s %08x\n" % (entry, zlib.crc32(entry))


def _parsed(line: bytes) -> tuple[str, int]:
    entry, _, checksum = line.rpartition(b" ")
    expires_at, _, token_id = entry.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(entry):
        raise ValueError("a line is not what was written")
    return bytes.fromhex(token_id.decode()).decode("utf-8", "surrogatepass"), int(expires_at)
