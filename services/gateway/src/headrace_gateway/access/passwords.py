"""Hashing and verifying passwords, off the event loop.

Argon2id, version 19, 19 MiB, two passes, one lane: 32 bytes of output, 16 of salt, in PHC string form.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type

from headrace_gateway.access.turns import Turns
from headrace_gateway.access.verified_passwords import VerifiedPasswords

_log = logging.getLogger(__name__)

_MEMORY_KIB: Final = 19_456
_PASSES: Final = 2
_LANES: Final = 1
_HASH_BYTES: Final = 32
_SALT_BYTES: Final = 16


class Passwords:
    """Thread pool for password hashing.

    Each hash takes tens of milliseconds of a core and 19 MiB, so the number of threads bounds the resources that logins
    use.

    Attributes:
        turns: One turn for each thread. Take one to hash or verify a password, and for checks right before that.
    """

    def __init__(self, threads: int, *, remembered_seconds: float = 0.0) -> None:
        """Create the pool; threads start on demand.

        Args:
            threads: Number of concurrent hashes.
            remembered_seconds: Time for which a verified password is not hashed again.
        """
        self._remembered = VerifiedPasswords(remembered_seconds)
        self._hasher = PasswordHasher(
            time_cost=_PASSES,
            memory_cost=_MEMORY_KIB,
            parallelism=_LANES,
            hash_len=_HASH_BYTES,
            salt_len=_SALT_BYTES,
            type=Type.ID,
        )
        self._threads = ThreadPoolExecutor(threads, "passwords")
        self.turns = Turns(threads)
        # A hash that belongs to no password.
        self._placeholder_hash = (
            f"$argon2id$v=19$m={_MEMORY_KIB},t={_PASSES},p={_LANES}"
            f"${_base64(secrets.token_bytes(_SALT_BYTES))}${_base64(secrets.token_bytes(_HASH_BYTES))}"
        )

    async def hash(self, password: bytes) -> str:
        """Return a new hash of a password."""
        password_hash = await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)
        self._remembered.remember(password_hash, password)
        return password_hash

    def remembers(self, password_hash: str, password: bytes) -> bool:
        """Return whether the password is known to belong to a hash, so that ``verify`` computes nothing."""
        return self._remembered.knows(password_hash, password)

    async def verify(self, password_hash: str, password: bytes) -> bool:
        """Return whether a hash belongs to this password."""
        if self._remembered.knows(password_hash, password):
            return True
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self._threads, self._verify, password_hash, password)
        if is_right:
            self._remembered.remember(password_hash, password)
        return is_right

    async def verify_placeholder(self, password: bytes) -> None:
        """Take as long as ``verify`` does, so that the duration does not disclose whether a user exists."""
        await self.verify(self._placeholder_hash, password)

    def close(self) -> None:
        """Stop the threads after their queued work."""
        self._threads.shutdown()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _verify(self, password_hash: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except VerifyMismatchError:
            return False
        except (VerificationError, InvalidHashError):
            _log.exception("a stored password hash cannot be used")
            return False


def _base64(data: bytes) -> str:
    # PHC strings have no padding.
    return base64.b64encode(data).rstrip(b"=").decode()
