"""The destinations of one source in this run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from headrace.sdk.errors import HeadraceError
from headrace_connectors.admission.breaker import Breaker, BreakerState
from headrace_connectors.contract import Record
from headrace_connectors.failures import FailureClass, class_of, translated
from headrace_connectors.pipeline_file.models import Admission, CircuitBreaker

Name = tuple[str, str]
"""Stream and topic."""
Reason = Literal["cap", "denylist", "unknown", "circuit_open", "partition_id_out_of_range"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
_NAME_BYTES_MAX: Final = 255
_LOOK_UP_AGAIN_SECONDS: Final = 1.0


class Refusal(NamedTuple):
    """Records of one destination that are not admitted."""

    destination: Name
    reason: Reason
    records_count: int
    text: str
    """The reason, and what to do."""


@dataclass(slots=True)
class AdmittedDestination:
    """A destination in use."""

    name: Name
    breaker: Breaker
    partitions_count: int | None = None
    """Number of partitions; None: the topic is not known to exist yet."""
    looked_up_at: float = 0.0
    """Time of the clock at which this number was looked up."""
    was_found: bool = False
    """True if the topic was known to exist at any time."""
    lookups_count: int = 0
    """Number of batches that wait for the topic to be looked up or created."""
    last_error: str | None = None
    messages_count: int = 0
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)


class NotCreated(Exception):
    """A destination does not exist, and is not to be created."""


class AdmissionTable:
    """Decides about destinations, and knows those in use: at most `max_destinations`.

    Args:
        settings: Rules.
        breaker: Settings of circuit breakers.
        create: Makes sure that a topic exists, and returns the number of its partitions. Raises `NotCreated`.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        settings: Admission,
        breaker: CircuitBreaker,
        create: Callable[[Name], Awaitable[int]],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._breaker = breaker
        self._create = create
        self._clock = clock
        self._admitted: dict[Name, AdmittedDestination] = {}

    def __len__(self) -> int:
        return len(self._admitted)

    @property
    def destinations(self) -> Iterable[AdmittedDestination]:
        """Destinations in use."""
        return self._admitted.values()

    @property
    def open_circuits_count(self) -> int:
        """Number of destinations that are refused because they keep failing."""
        now = self._clock()
        return sum(one.breaker.state(now) is BreakerState.OPEN for one in self._admitted.values())

    def documents(self) -> list[dict[str, Any]]:
        """Describe the destinations in use, for the status API."""
        now = self._clock()
        return [
            {
                "stream": one.name[0],
                "topic": one.name[1],
                "circuit": one.breaker.state(now),
                "partitions_count": one.partitions_count,
                "messages_count": one.messages_count,
                "last_error": one.last_error,
            }
            for one in self._admitted.values()
        ]

    async def prewarm(self) -> list[Name]:
        """Create the destinations that the allowlist names; return those that are not ready at the deadline."""
        names = [(one.stream, one.topic) for one in self._settings.allow if one.names_one]
        names = names[: self._settings.max_destinations]
        tasks = {asyncio.create_task(self._warm(name)): name for name in names}
        if not tasks:
            return []
        done, late = await asyncio.wait(tasks, timeout=self._settings.startup_prewarm_deadline.seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return sorted([tasks[task] for task in late] + [tasks[task] for task in done if task.exception() is not None])

    async def _warm(self, name: Name) -> None:
        await self._ready(self._entry(name))

    async def admit(self, groups: Mapping[Name, Sequence[Record]]) -> tuple[dict[Name, list[Record]], list[Refusal]]:
        """Split groups into the records that may be sent, and refusals.

        Raises:
            Exception: A topic could not be looked up or created, and this is not the fault of the destination alone.
        """
        admitted: dict[Name, list[Record]] = {}
        refused: list[Refusal] = []
        unready: list[AdmittedDestination] = []
        if len(self._admitted) + len(groups) > self._settings.max_destinations:
            self._make_room()
        for name, records in groups.items():
            refusal = self._refusal(name, len(records))
            if refusal is not None:
                refused.append(refusal)
                continue
            entry = self._entry(name)
            admitted[name] = list(records)
            if entry.partitions_count is None:
                unready.append(entry)
        await self._look_up(unready, admitted, refused)
        # Partitions may have been added since the destination was looked up.
        outdated = [found for name, records in admitted.items() if (found := self._outdated(name, records))]
        await self._look_up(outdated, admitted, refused)
        for name in list(admitted):
            refusal = self._out_of_range(admitted, name)
            if refusal is not None:
                refused.append(refusal)
        return admitted, refused

    async def _look_up(
        self, entries: Sequence[AdmittedDestination], admitted: dict[Name, list[Record]], refused: list[Refusal]
    ) -> None:
        failure: BaseException | None = None
        for entry, result in zip(entries, await self._looked_up(entries), strict=True):
            if isinstance(result, NotCreated):
                # The place is for destinations that exist. Another batch may have left it already.
                if self._admitted.get(entry.name) is entry:
                    del self._admitted[entry.name]
                refused.append(Refusal(entry.name, "unknown", len(admitted.pop(entry.name)), str(result)))
            elif isinstance(result, BaseException):
                self._not_ready(entry, result)
                failure = failure or result
        if failure is not None:
            raise failure

    def _outdated(self, name: Name, records: Sequence[Record]) -> AdmittedDestination | None:
        """Return the destination of these records if they name partitions that it did not have some time ago."""
        entry = self._admitted.get(name)
        if entry is None or entry.partitions_count is None:
            return None
        if self._clock() - entry.looked_up_at < _LOOK_UP_AGAIN_SECONDS:
            return None
        named = (record.destination.partition for record in records if record.destination is not None)
        if all(partition is None or partition < entry.partitions_count for partition in named):
            return None
        entry.partitions_count = None
        return entry

    async def _looked_up(self, entries: Sequence[AdmittedDestination]) -> list[BaseException | None]:
        for entry in entries:
            entry.lookups_count += 1
        try:
            return await asyncio.gather(*(self._ready(entry) for entry in entries), return_exceptions=True)
        finally:
            for entry in entries:
                entry.lookups_count -= 1

    def _not_ready(self, entry: AdmittedDestination, error: BaseException) -> None:
        """Note that a topic could not be looked up or created; if that lasts, later batches are not to fail with it."""
        if isinstance(error, HeadraceError) and class_of(error) in (FailureClass.DESTINATION, FailureClass.RECORD):
            entry.last_error = str(translated(error, "/".join(entry.name)))
            entry.breaker.failed(self._clock(), opens=True)
        else:
            entry.last_error = str(error)

    def _make_room(self) -> None:
        """Give up the places of destinations that were never found and are not refused now."""
        now = self._clock()
        for entry in list(self._admitted.values()):
            if not entry.was_found and not entry.lookups_count and entry.breaker.admits(now):
                del self._admitted[entry.name]

    def _refusal(self, name: Name, count: int) -> Refusal | None:
        settings, stream, topic = self._settings, *name
        if not all(0 < len(part.encode()) <= _NAME_BYTES_MAX for part in name):
            return Refusal(name, "unknown", count, f"names have 1 to {_NAME_BYTES_MAX} bytes")
        if settings.mode == "allowlist" and not any(one.matches(stream, topic) for one in settings.allow):
            return Refusal(name, "unknown", count, f"{stream}/{topic} is not in admission.allow: add it there")
        if settings.mode == "denylist" and any(one.matches(stream, topic) for one in settings.deny):
            return Refusal(name, "denylist", count, f"{stream}/{topic} is in admission.deny")
        entry = self._admitted.get(name)
        if entry is None:
            if len(self._admitted) >= settings.max_destinations:
                return Refusal(
                    name,
                    "cap",
                    count,
                    f"{stream}/{topic} would be destination {len(self._admitted) + 1} of at most "
                    f"{settings.max_destinations}: correct the routing, or raise admission.max_destinations",
                )
        elif not entry.breaker.admits(self._clock()):
            return Refusal(
                name,
                "circuit_open",
                count,
                f"{stream}/{topic} keeps failing and is tried again later: {entry.last_error}",
            )
        return None

    def _out_of_range(self, admitted: dict[Name, list[Record]], name: Name) -> Refusal | None:
        entry = self._admitted.get(name)
        if entry is None or entry.partitions_count is None:
            # Another batch has found meanwhile that it is gone: sending shows that.
            return None
        count = entry.partitions_count
        kept: list[Record] = []
        refused: list[Record] = []
        for record in admitted[name]:
            partition = record.destination.partition if record.destination is not None else None
            (kept if partition is None or 0 <= partition < count else refused).append(record)
        if not refused:
            return None
        if kept:
            admitted[name] = kept
        else:
            del admitted[name]
        return Refusal(
            name,
            "partition_id_out_of_range",
            len(refused),
            f"{name[0]}/{name[1]} has the partitions 0 to {count - 1}; a record names another one",
        )

    def _entry(self, name: Name) -> AdmittedDestination:
        entry = self._admitted.get(name)
        if entry is None:
            breaker = Breaker(self._breaker.failure_threshold, self._breaker.cool_down.seconds)
            entry = self._admitted[name] = AdmittedDestination(name, breaker)
        return entry

    async def _ready(self, entry: AdmittedDestination) -> None:
        async with entry.opening:
            if entry.partitions_count is None:
                entry.partitions_count = await self._create(entry.name)
                entry.looked_up_at = self._clock()
                entry.was_found = True

    def succeeded(self, name: Name, count: int) -> None:
        """Records of a destination were stored."""
        entry = self._admitted.get(name)
        if entry is None:
            # Another batch has found meanwhile that it is gone.
            return
        entry.breaker.succeeded()
        entry.messages_count += count

    def failed(self, name: Name, error: str, *, is_own: bool, is_lasting: bool = False) -> None:
        """Records of a destination were not stored.

        Args:
            name: The destination.
            error: What happened.
            is_own: True if the destination is the reason; False if nothing could be sent to anyone.
            is_lasting: True if it fails until something is corrected: its circuit breaker opens at once.
        """
        entry = self._admitted.get(name)
        if entry is None:
            return
        entry.last_error = error
        if is_own:
            entry.breaker.failed(self._clock(), opens=is_lasting)
            # It may have been deleted, or have got other partitions.
            entry.partitions_count = None
