"""A cache of verified passwords, so that a client that connects often does not cost a hash each time.

An entry is a digest under a key that only this process has and never writes anywhere. It is stored with the hash that
the password was verified against: a new password has a new hash, which no old entry matches.
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
"""Maximum number of entries, about 3 MB; the least recently used are dropped first."""
_KEY_BYTES: Final = 32
_DIGEST_BYTES: Final = 32


class VerifiedPasswords:
    """Remembers passwords that were verified for a limited time; wrong passwords are never remembered."""

    def __init__(self, seconds: float, *, now: Callable[[], float] = time.monotonic) -> None:
        """Start empty.

        Args:
            seconds: Lifetime of an entry, regardless of its use; 0: no caching.
            now: Seconds of a monotonic clock.
        """
        self._seconds = seconds
        self._now = now
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()

    def remember(self, password_hash: str, password: bytes) -> None:
        """Record that this password matches the hash."""
        if self._seconds <= 0:
            return
        self._entries[password_hash] = self._digest(password_hash, password), self._now() + self._seconds
        self._entries.move_to_end(password_hash)
        if len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)

    def knows(self, password_hash: str, password: bytes) -> bool:
        """Return whether this password is recorded as matching the hash; false if unknown."""
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
        # A hash contains no zero byte, so the concatenation is unambiguous.
        data = password_hash.encode() + b"\0" + password
        return hashlib.blake2b(data, key=self._key, digest_size=_DIGEST_BYTES).digest()
