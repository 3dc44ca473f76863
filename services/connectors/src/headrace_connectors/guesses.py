"""Limit of wrong tokens and passwords from one address, at the ports of a process of connectors."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from headrace_chassis.places import place_of

ATTEMPTS_MAX: Final = 20
"""Wrong credentials from one address, one after the other, until further ones are refused unseen."""
INTERVAL_SECONDS: Final = 10.0
"""Time after which such an address has one more attempt."""
TOO_MANY_GUESSES: Final = "too many wrong credentials have come from this address: wait before you try again"
"""Reason of a refusal."""
_KNOWN_SECONDS: Final = 86_400.0
# Clients can come from many addresses; the oldest are forgotten first.
_PLACES_MAX: Final = 10_000


class Guesses:
    """Counts wrong credentials by address.

    An address from which right ones came within a day has no limit: others behind the same balancer would lock its
    callers out.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Count nothing yet.

        Args:
            clock: Returns seconds.
        """
        self._clock = clock
        # The time at which the attempts of an address will all be there again, as if each took one interval.
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._known: OrderedDict[str, float] = OrderedDict()

    def refused_for_seconds(self, address: str | None, *, is_given: bool, is_right: bool) -> float:
        """Count credentials from an address; return the seconds until any are looked at, and 0 if these were.

        Args:
            address: Address of the caller.
            is_given: False if the caller has sent no credentials, which counts as no guess.
            is_right: True if they are the right ones.
        """
        if not is_given:
            return 0.0
        place, now = place_of(address or ""), self._clock()
        is_known = now - self._known.get(place, -math.inf) < _KNOWN_SECONDS
        # Attempts come back as fractions, too: less than one is none.
        wait_seconds = self._full_at.get(place, now) - now - (ATTEMPTS_MAX - 1) * INTERVAL_SECONDS
        if wait_seconds > 0 and not is_known:
            return wait_seconds
        if is_right:
            self._full_at.pop(place, None)
            _put(self._known, place, now)
        else:
            _put(self._full_at, place, max(now, self._full_at.get(place, now)) + INTERVAL_SECONDS)
        return 0.0


def _put(places: OrderedDict[str, float], place: str, value: float) -> None:
    places[place] = value
    places.move_to_end(place)
    if len(places) > _PLACES_MAX:
        places.popitem(last=False)
