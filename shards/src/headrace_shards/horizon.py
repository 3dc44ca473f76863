"""Up to which time the catalogue of the shards is known to have every change."""

from __future__ import annotations

from collections.abc import Callable


class Horizon:
    """Turns what the metadata service says of its state into what holds for the shards of this process.

    A state is a version of the catalogue and the time of the newest operation in it. When the shards act on that
    version, they know every commit up to that time; so a stage that had expired by then, and that no publication names,
    was not committed and never will be.
    """

    def __init__(self, passed: Callable[[int], None] | None = None) -> None:
        """Nothing is known.

        Args:
            passed: Told, in microseconds since the Unix epoch, whenever it is later than before.
        """
        self._passed = passed
        self._version = 0
        self._micros = 0
        self._expected: tuple[int, int] | None = None

    @property
    def micros(self) -> int:
        """As it was passed on last; 0 before the first time."""
        return self._micros

    def known(self, version: int, timestamp_micros: int) -> None:
        """Hear of a state of the metadata service, from whichever replica and however late.

        Args:
            version: Of its catalogue.
            timestamp_micros: Of the newest operation in it.
        """
        if version <= self._version:
            self._pass(timestamp_micros)
        elif self._expected is None:
            # The first one that is not reached stays: with a later one, and one after that, it might never be.
            self._expected = (version, timestamp_micros)

    def reached(self, version: int) -> None:
        """Hear that the shards act on a version."""
        self._version = version
        if self._expected is not None and self._expected[0] <= version:
            self._pass(self._expected[1])
            self._expected = None

    def _pass(self, micros: int) -> None:
        if micros > self._micros:
            self._micros = micros
            if self._passed is not None:
                self._passed(micros)
