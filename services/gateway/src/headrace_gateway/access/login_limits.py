"""Rate limits of failed logins.

Failures fill three buckets: of the user at that address, of the address, and of the user from all addresses; each leaks
steadily. While one of the first two is full, a login is refused before its password is verified: guessing gets slow,
and refusing is cheap. The buckets of the address and of the user are ten times as large.

No bucket locks out users unrelated to the failures:

- The bucket of the user from all addresses only tightens the others. While it is full, an address that is new to the
  user has one attempt instead of ten, so an owner who knows the password can log in from any address.
- The bucket of the address does not apply to a user who has logged in from there recently.

An address is normalised to the part that its owner cannot vary freely: the 64-bit network of IPv6, and one canonical
form of IPv4. Unknown access tokens fill only a bucket of their address.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace_chassis.places import place_of

_WIDE: Final = 10
# Maximum number of buckets, because clients can invent addresses and names; the oldest failures are dropped first.
_BUCKETS_MAX: Final = 100_000
# Maximum number of remembered pairs of user and address with a successful login; the oldest are dropped first.
_KNOWN_MAX: Final = 100_000
_KNOWN_MICROS: Final = 30 * 86_400 * 1_000_000


class _Key(NamedTuple):
    """Key of a bucket; None matches any value."""

    username: str | None
    host: str | None
    is_token: bool = False


@dataclass(slots=True)
class _Bucket:
    level: float
    at_micros: int


class LoginLimits:
    """Counts failed logins by user and address."""

    def __init__(self, *, failures_max: int, interval_micros: int) -> None:
        """Configure the bucket of one user at one address.

        Args:
            failures_max: Failures in a row of one user at one address until further logins are refused; 0: unlimited.
            interval_micros: Time in microseconds after which one more attempt is allowed.
        """
        self._failures_max = failures_max
        self._interval_micros = interval_micros
        self._buckets: OrderedDict[_Key, _Bucket] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], int] = OrderedDict()

    def refused_for_micros(self, username: str, address: str, now_micros: int) -> int:
        """Return the microseconds after which a login may be tried; 0: now.

        Args:
            username: User who logs in.
            address: Address of the client.
            now_micros: Microseconds since the Unix epoch.
        """
        if self._failures_max == 0:
            return 0
        host = place_of(address)
        is_known = self.knows(username, address, now_micros)
        narrow_max = self._failures_max
        if not is_known and self._excess(_Key(username, None), now_micros) > 0:
            narrow_max = 1
        excess = self._level(_Key(username, host), now_micros) + 1 - narrow_max
        waits = [excess * self._interval_micros]
        if not is_known:
            waits.append(self._excess(_Key(None, host), now_micros) * self._interval_micros / _WIDE)
        return max(0, round(max(waits)))

    def knows(self, username: str, address: str, now_micros: int) -> bool:
        """Return whether the user has logged in from the address recently."""
        return now_micros - self._known.get((username, place_of(address)), -_KNOWN_MICROS) < _KNOWN_MICROS

    def failed(self, username: str, address: str, now_micros: int) -> None:
        """Count a failed login."""
        host = place_of(address)
        self._count((_Key(username, host), _Key(None, host), _Key(username, None)), now_micros)

    def succeeded(self, username: str, address: str, now_micros: int) -> None:
        """Clear the failures of a user at this address, which were typos, and remember the address for the user."""
        host = place_of(address)
        self._buckets.pop(_Key(username, host), None)
        self._known[username, host] = now_micros
        self._known.move_to_end((username, host))
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def token_refused_for_micros(self, address: str, now_micros: int) -> int:
        """Return the microseconds after which an unknown token may be tried; 0: now."""
        if self._failures_max == 0:
            return 0
        excess = self._excess(_Key(None, place_of(address), is_token=True), now_micros)
        return max(0, round(excess * self._interval_micros / _WIDE))

    def token_failed(self, address: str, now_micros: int) -> None:
        """Count a token that does not exist."""
        self._count((_Key(None, place_of(address), is_token=True),), now_micros)

    def _count(self, keys: tuple[_Key, ...], now_micros: int) -> None:
        for key in keys:
            self._buckets[key] = _Bucket(self._level(key, now_micros) + 1, now_micros)
            self._buckets.move_to_end(key)
        while len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)

    def _excess(self, key: _Key, now_micros: int) -> float:
        """Return by how much one more failure would overflow a wide bucket."""
        return self._level(key, now_micros) + 1 - self._failures_max * _WIDE

    def _level(self, key: _Key, now_micros: int) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        # A clock that was set back leaks nothing, but the bucket goes on to leak from the new time.
        bucket.at_micros = min(bucket.at_micros, now_micros)
        leaked = (now_micros - bucket.at_micros) / self._interval_micros
        # Wide buckets leak proportionally faster.
        is_narrow = key.username is not None and key.host is not None
        return max(0.0, bucket.level - leaked * (1 if is_narrow else _WIDE))
