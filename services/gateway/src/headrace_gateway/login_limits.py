"""How often logins may fail before further ones are refused for a while.

Failures fill three buckets, of the user at that address, of the address, and of the user from anywhere; each leaks
steadily. While one is full, a login is refused before its password is looked at: guessing gets slow, refusing is cheap.
The two wide buckets are ten times as large, so that one clumsy program locks neither its neighbours out nor its owner
out from elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

_WIDE = 10
# What is remembered of addresses and names that somebody makes up is bounded; the oldest failures are forgotten first.
_BUCKETS_MAX = 100_000


@dataclass(slots=True)
class _Bucket:
    level: float
    at_micros: int


class LoginLimits:
    """Counts failed logins by user and address."""

    def __init__(self, *, failures_max: int, interval_micros: int) -> None:
        """Describe the narrow bucket.

        Args:
            failures_max: Failures in a row of one user at one address until he is refused; 0: never.
            interval_micros: After so long one more attempt is allowed.
        """
        self._failures_max = failures_max
        self._interval_micros = interval_micros
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def refused_for_micros(self, username: str, host: str, now_micros: int) -> int:
        """Return after how long a login may be tried; 0: now.

        Args:
            username: Who wants to log in.
            host: Where from, without the port.
            now_micros: Microseconds since the Unix epoch.
        """
        if self._failures_max == 0:
            return 0
        excess = max(
            self._level(key, now_micros) + 1 - self._failures_max * width for key, width in _keys(username, host)
        )
        return max(0, round(excess * self._interval_micros))

    def failed(self, username: str, host: str, now_micros: int) -> None:
        """Count a failed login."""
        for key, _ in _keys(username, host):
            self._buckets[key] = _Bucket(self._level(key, now_micros) + 1, now_micros)
            self._buckets.move_to_end(key)
        while len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)

    def succeeded(self, username: str, host: str) -> None:
        """Forget the failures of a user at this address: he mistyped."""
        self._buckets.pop((username, host), None)

    def _level(self, key: tuple[str, str], now_micros: int) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        # A clock that was set back lets nothing leak, and nobody in.
        leaked = max(0, now_micros - bucket.at_micros) / self._interval_micros
        # The wide buckets leak as much faster as they are larger.
        return max(0.0, bucket.level - leaked * (1 if all(key) else _WIDE))


def _keys(username: str, host: str) -> tuple[tuple[tuple[str, str], int], ...]:
    return ((username, host), 1), (("", host), _WIDE), ((username, ""), _WIDE)
