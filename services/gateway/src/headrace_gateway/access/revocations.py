"""Revoked tokens, kept across restarts.

The file has one line per token: expiry, id in hexadecimal digits, checksum. Lines are appended, so that the cost of a
revocation does not depend on their number; the file is compacted occasionally, which drops expired tokens.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from pathlib import Path
from typing import Final

from headrace_chassis.directories import make_directory, replace_file, sync_directory

_Revoked = dict[str, int]

# The file is compacted when it has twice as many lines as after the last compaction, plus this number.
_SPARE_LINES: Final = 256


class RevocationsFile:
    """Ids of revoked tokens, until their expiry."""

    def __init__(self, file: Path, revoked: _Revoked, *, lines_count: int = 0, size_bytes: int = 0) -> None:
        self._file = file
        self._revoked = revoked
        # Number of complete lines; a line torn by a crash may follow them.
        self._lines_count = lines_count
        self._size_bytes = size_bytes
        self._lines_max = 2 * lines_count + _SPARE_LINES
        self._unwritten: list[bytes] = []
        self._writing = asyncio.Lock()

    @classmethod
    def open(cls, file: Path) -> RevocationsFile:
        """Read the revocations of earlier runs.

        Raises:
            OSError: The file exists but cannot be read.
            ValueError: The file is damaged. Ignoring this would accept revoked tokens again.
        """
        try:
            contents = file.read_bytes()
        except FileNotFoundError:
            return cls(file, {})
        # A killed process may have replaced the file without syncing the directory.
        sync_directory(file.parent)
        whole, newline, _torn = contents.rpartition(b"\n")
        lines = whole.split(b"\n") if newline else []
        try:
            revoked = dict(map(_parsed, lines))
        except ValueError as error:
            raise ValueError(f"{file} is not a list of revoked tokens: {error}") from error
        return cls(file, revoked, lines_count=len(lines), size_bytes=len(whole) + len(newline))

    def holds(self, token_id: str) -> bool:
        """Return whether this token was revoked."""
        return token_id in self._revoked

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:
        """Revoke a token; the revocation is durable when this returns.

        Args:
            token_id: Id of the token.
            expires_at: Expiry of the token (Unix seconds).
            expired_before: Tokens that expired before this time (Unix seconds) need not be remembered.

        Returns:
            True if the token was valid until now.
        """
        was_good = token_id not in self._revoked
        self._revoked[token_id] = expires_at
        self._unwritten.append(_line(token_id, expires_at))
        # A cancelled caller must not cancel the write that others share.
        await asyncio.shield(self._write(expired_before))
        return was_good

    async def _write(self, expired_before: int) -> None:
        async with self._writing:
            lines, self._unwritten = self._unwritten, []
            if not lines:
                # Another caller's write included these entries.
                return
            try:
                if self._lines_count + len(lines) > self._lines_max:
                    self._forget(expired_before)
                    # Forces a compaction on the next try because the length of the file is unknown after a failure.
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
            # Overwrite the remains of a crash or a failed write after the last complete line.
            file.seek(position)
            file.write(lines)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())

    def _replace(self, lines: bytes) -> None:
        make_directory(self._file.parent)
        replace_file(self._file, lines.decode("ascii"))


def _line(token_id: str, expires_at: int) -> bytes:
    # A holder of the secret can create tokens with any id.
    entry = b"%d %s" % (expires_at, token_id.encode("utf-8", "surrogatepass").hex().encode())
    return b"%s %08x\n" % (entry, zlib.crc32(entry))


def _parsed(line: bytes) -> tuple[str, int]:
    entry, _, checksum = line.rpartition(b" ")
    expires_at, _, token_id = entry.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(entry):
        raise ValueError("a line has a wrong checksum")
    return bytes.fromhex(token_id.decode()).decode("utf-8", "surrogatepass"), int(expires_at)
