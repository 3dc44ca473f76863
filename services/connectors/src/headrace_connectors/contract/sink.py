"""Sinks: where messages of topics are written to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from headrace_connectors.contract.records import Record
from headrace_settings import Section


class Place(NamedTuple):
    """A partition of a topic."""

    stream: str
    topic: str
    partition: int


class Received(NamedTuple):
    """A decoded message."""

    record: Record
    """Payload, id and headers."""
    place: Place
    offset: int
    timestamp_micros: int
    """Time at which the server stored it."""
    key: bytes | None


class Sink(ABC):
    """Writes messages.

    The runtime calls `open`, then again and again `write` with the messages of one or several partitions, each in its
    order, and `flush` with the offsets to continue at. Then it stores these offsets. A `write` that fails with
    `InvalidRecord` has written nothing, and what earlier ones have written stays. After any other failure, everything
    since the last `flush` is written again: the sink forgets what it holds of it. The failure may be one of the runtime
    between `write` and `flush`, or a stop; in any case `forget` is called.

    A sink that stores the offsets of `flush` together with its data returns them from `positions`: the runtime
    continues there, whatever the server has stored, so that nothing is written twice.
    """

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    uses_host: ClassVar[bool] = False
    """True if its settings name code or files of the machine: changes over HTTP may use it only if the pipeline file
    allows it.
    """

    async def open(self) -> None:  # noqa: B027 - optional
        """Connect.

        Raises:
            ConnectorError: The sink cannot start; the text says what to do.
            Unavailable: The other side does not answer; the runtime tries again.
        """

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offset to continue at for each partition whose offsets are stored with the data."""
        del places
        return {}

    @abstractmethod
    async def write(self, messages: Sequence[Received]) -> None:
        """Write messages.

        Raises:
            InvalidRecord: One message is the reason; with `index`, the runtime goes on without it.
            Unavailable: The runtime tries again.
            ConnectorError: The connector stops with this error.
        """

    async def flush(self, positions: Mapping[Place, int]) -> None:  # noqa: B027 - optional
        """Make everything durable that was written.

        Args:
            positions: Offset after the last message of each partition, including messages that were not written
                because they are invalid.

        Raises:
            Unavailable: The runtime writes everything since the last `flush` again.
            ConnectorError: The connector stops with this error.
        """

    async def forget(self) -> None:  # noqa: B027 - optional
        """Give up what was written since the last `flush`: it is written again, by this process or by another one.

        The runtime calls it after a failure, before messages of another topic come. A sink that returns `positions`
        needs it: the next `flush` would make rows durable without their offsets. Nothing is to be raised.
        """

    async def close(self) -> None:  # noqa: B027 - optional
        """Release everything. Called once, after an `open` that failed, too."""
