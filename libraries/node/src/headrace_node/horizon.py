"""Time up to which the shards' catalog is known to contain every change."""

from __future__ import annotations

from collections.abc import Callable


class Horizon:
    """Converts states of the metadata service to the horizon of the shards of this process.

    A state is a version of the catalog and the time of the newest operation in it. When the shards use that version,
    they know every commit up to that time; a staged batch that had expired by that time and that no publication names
    was not committed and never will be.
    """

    def __init__(self, passed: Callable[[int], None] | None = None) -> None:
        """Create a horizon without any known state.

        Args:
            passed: Called with the time, in microseconds since the Unix epoch, whenever it advances.
        """
        self._passed = passed
        self._version = 0
        self._micros = 0
        self._expected: tuple[int, int] | None = None

    @property
    def micros(self) -> int:
        """Time that was passed on last; 0 before the first one."""
        return self._micros

    def known(self, version: int, timestamp_micros: int) -> None:
        """Note a state of the metadata service, from any replica and in any order.

        Args:
            version: Version of its catalog.
            timestamp_micros: Time of the newest operation in it.
        """
        if version <= self._version:
            self._pass(timestamp_micros)
        elif self._expected is None:
            # Keep the first state that is not reached: if newer states replaced it, none might ever be reached.
            self._expected = (version, timestamp_micros)

    def reached(self, version: int) -> None:
        """Note that the shards use a version."""
        self._version = version
        if self._expected is not None and self._expected[0] <= version:
            self._pass(self._expected[1])
            self._expected = None

    def _pass(self, micros: int) -> None:
        if micros > self._micros:
            self._micros = micros
            if self._passed is not None:
                self._passed(micros)
