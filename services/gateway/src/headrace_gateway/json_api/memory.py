"""Memory budget of the JSON APIs: bodies of requests, the batches made of them, and answers until they are taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from contextvars import ContextVar
from typing import Final, Self

MESSAGE_BYTES: Final = 80
"""Size of a message in a batch without its payload, key and headers: its header and its index entry."""
# Answers up to this size are only counted: while other users hold all memory, a user still gets small answers.
_SMALL_BYTES: Final = 8 * 1024
# One user may hold 1/2 of the memory of all requests.
_SHARE: Final = 2


class Exhausted(Exception):
    """Other requests in progress use the budget."""


class Budget:
    """Memory of all requests in progress; one user may use half of it.

    A request that is alone is never refused, so a permitted request is possible whatever its batch takes.
    """

    def __init__(self, bytes_max: int) -> None:
        """Start with an unused budget of this size."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._bytes_of: Counter[Hashable] = Counter()

    @property
    def used_bytes(self) -> int:
        """Number of bytes in use."""
        return self._bytes

    def held_by(self, user: Hashable) -> Held:
        """Return an empty holding of a request of this user."""
        return Held(self, user)

    def change(self, user: Hashable, before_bytes: int, after_bytes: int, *, is_due: bool = False) -> None:
        """Change the size of one holding of a user.

        Args:
            user: Owner of the holding.
            before_bytes: Size of the holding so far.
            after_bytes: Size of the holding from now on.
            is_due: Whether it cannot be refused, and is only counted.

        Raises:
            Exhausted: The budget does not suffice; nothing has changed.
        """
        others = self._bytes - before_bytes
        mine = self._bytes_of[user] - before_bytes
        if after_bytes > before_bytes and others and not is_due:
            is_beyond_share = mine > 0 and mine + after_bytes > self._bytes_max // _SHARE
            if is_beyond_share or others + after_bytes > self._bytes_max:
                raise Exhausted
        self._bytes = others + after_bytes
        self._bytes_of[user] = mine + after_bytes
        if not self._bytes_of[user]:
            del self._bytes_of[user]


class Held:
    """Memory held by one request, until the end of a ``with`` block."""

    def __init__(self, budget: Budget, user: Hashable) -> None:
        """Use `Budget.held_by` instead."""
        self._budget = budget
        self._user = user
        self._bytes = 0

    def __enter__(self) -> Self:
        """Enter without holding anything."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release everything."""
        self.resize(0)

    @property
    def size_bytes(self) -> int:
        """Number of bytes held."""
        return self._bytes

    def resize(self, size_bytes: int, *, is_due: bool = False) -> None:
        """Hold this number of bytes instead; with ``is_due`` it cannot be refused.

        Raises:
            Exhausted: The budget does not suffice; nothing has changed.
        """
        self._budget.change(self._user, self._bytes, size_bytes, is_due=is_due)
        self._bytes = size_bytes

    def hold_answer(self, size_bytes: int, *, besides_bytes: int = 0, is_due: bool = False) -> None:
        """Hold an answer instead of what it was made of.

        Args:
            size_bytes: Size of the answer.
            besides_bytes: Size of what is held with it.
            is_due: Whether it cannot be refused, as that of a change.

        Raises:
            Exhausted: The budget does not suffice; nothing has changed.
        """
        self.resize(besides_bytes + size_bytes, is_due=is_due or size_bytes <= _SMALL_BYTES)

    def grow(self, size_bytes: int) -> None:
        """Hold additional bytes.

        Raises:
            Exhausted: The budget does not suffice; nothing has changed.
        """
        self.resize(self._bytes + size_bytes)


BUDGET: Final[ContextVar[Budget]] = ContextVar("budget")
"""Budget of the server that handles the current request."""
