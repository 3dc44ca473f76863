"""Tokens that were given back before their time, also over a restart."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

_Revoked = dict[str, int]


class Revocations:
    """Ids of revoked tokens, until they would have expired anyway. The file holds a MessagePack map, id to expiry."""

    def __init__(self, file: Path, revoked: _Revoked) -> None:
        self._file = file
        self._revoked = revoked
        self._writing = asyncio.Lock()

    @classmethod
    def open(cls, file: Path) -> Revocations:
        """Read what earlier runs have revoked.

        Raises:
            OSError: The file is there and cannot be read.
            ValueError: It is not what it should be. Going on would let revoked tokens in again.
        """
        try:
            encoded = file.read_bytes()
        except FileNotFoundError:
            return cls(file, {})
        try:
            return cls(file, msgspec.msgpack.decode(encoded, type=_Revoked))
        except msgspec.MsgspecError as error:
            raise ValueError(f"{file} does not hold revoked tokens: {error}") from error

    def holds(self, token_id: str) -> bool:
        """Whether this token was revoked."""
        return token_id in self._revoked

    async def add(self, token_id: str, expires_at: int) -> None:
        """Revoke a token from now on; when this returns, over a crash as well."""
        self._revoked[token_id] = expires_at
        async with self._writing:
            await asyncio.to_thread(self._write, msgspec.msgpack.encode(self._revoked))

    def forget_expired(self, now: int) -> None:
        """Drop the tokens that expire before ``now`` (Unix seconds); the file follows with the next one."""
        for token_id in [token_id for token_id, expires_at in self._revoked.items() if expires_at < now]:
            del self._revoked[token_id]

    def _write(self, encoded: bytes) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        with new.open("wb") as file:
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
