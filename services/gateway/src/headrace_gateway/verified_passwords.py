"""A cache of verified passwords, so that a client that connects often does not cost a hash each time.

What is kept is a digest under a key that only this process has, and that is never written anywhere. It is kept with the
hash that the password was verified against: a new password has a new hash, and makes nothing of the old one valid.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

ENTRIES_MAX: Final = 10_000
"""The ones that were used longest ago are forgotten first: some 3 MB at most."""
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 32


class VerifiedPasswords:
    """Remembers passwords that were right, for a while; those that were wrong are never remembered."""

    def __init__(self, seconds: float, *, now: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            seconds: How long a password is remembered, however often it is used meanwhile; 0: not at all.
            now: Seconds of a clock that never goes back.
        """
        self._seconds = seconds
        self._now = now
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def remember(self, password_hash: str, password: bytes) -> None:
        """Keep that this password is the one of the hash."""
        if self._seconds <= 0:
            return
        self._entries[password_hash] = self._digest(password_hash, password), self._now() + self._seconds
        self._entries.move_to_end(password_hash)
        if len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)

    def knows(self, password_hash: str, password: bytes) -> bool:
        """Say whether this password was found to be the one of the hash; if not, nothing is known about it."""
        found = self._entries.get(password_hash)
        if found is None:
            return False
        digest, expires_at = found
        if self._now() >= expires_at:
            del self._entries[password_hash]
            return False
        self._entries.move_to_end(password_hash)
        return hmac.compare_digest(digest, self._digest(password_hash, password))

    def _digest(self, password_hash: str, password: bytes) -> bytes:
        # A hash contains no zero byte, so that the two cannot run into each other.
        data = password_hash.encode() + b"\0" + password
        return hashlib.blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest()
