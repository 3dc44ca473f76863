"""Sources: where records come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from headrace_connectors.contract.records import Record
from headrace_settings import Section


@dataclass(frozen=True, slots=True)
class Cdc:
    """The source reads a log of changes that its server keeps until they are committed.

    A failed commit is tried again for ever: giving up would let the log fill the server's disk in silence.
    """


@dataclass(frozen=True, slots=True)
class Polling:
    """The source reads rows that stay where they are; the next poll finds them again."""

    destructive: bool
    """True if commits delete or mark rows: a dropped record is lost then."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """No buffer behind the source keeps the records: callers of a webhook, a file that is rotated away."""


SourceMode = Cdc | Polling | Opaque


class Batch(NamedTuple):
    """Records of one poll."""

    records: Sequence[Record]
    state: bytes | None = None
    """State to remember once they are stored, made by `encode_state`; None: nothing new.

    The next run of the connector gets the newest one in `Source.open`.
    """


class Lag(NamedTuple):
    """Distance of a connector from the end of what it reads."""

    behind: int
    """Number of units that are not read, or not stored, yet."""
    unit: Literal["bytes", "messages", "rows"]


class Source(ABC):
    """A source of records.

    The runtime calls, strictly in this order: `open`, then again and again `poll`, and `commit` when all records of the
    poll are stored in their topics and the state is on disk, and at last `close`. If records could not be stored, the
    runtime polls again without a commit: the source then returns the same records once more, or refuses them to
    their senders.

    A commit does what cannot be undone, such as advancing a replication slot, deleting rows or answering a caller. It
    may be called twice for the same records, or be left out when a process dies. After a restart with newer state,
    records that the state covers are left out by the source, and what their commit has not done is done then.
    """

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    uses_host: ClassVar[bool] = False
    """True if its settings name code or files of the machine: changes over HTTP may use it only if the pipeline file
    allows it.
    """
    keeps_incomplete: bool = True
    """False: the runtime drops records without a state when no state follows them (`guarantee = "exactly_once"`). Set
    before `open`.
    """

    @classmethod
    def record_fields(cls, settings: Any) -> Sequence[str] | None:
        """Return the names of all fields that records have with these settings; None: only the data shows them.

        `headrace connect lint` refuses settings that name other fields.
        """
        del settings
        return None

    @abstractmethod
    def mode(self) -> SourceMode:
        """Return the kind of the source, which decides what happens if records or commits fail."""

    async def open(self, state: bytes | None) -> None:
        """Connect, and continue after this state; None: there is none.

        Raises:
            StateVersionMismatch: The state is of another version.
            ConnectorError: The source cannot start; the text says what to do.
            Unavailable: The other side does not answer; the runtime tries again.
        """
        del state

    async def open_read_only(self, state: bytes | None) -> None:
        """Connect as `open` does, for one poll that no commit follows: `headrace connect test`.

        A source whose `open` creates, deletes or marks something at the other side overrides it, and leaves that out.

        Raises:
            ConnectorError: As `open`; or what `open` would create is needed for a poll.
        """
        await self.open(state)

    @abstractmethod
    async def poll(self) -> Batch | None:
        """Wait for records, and return them in their order; None: there were none for a while.

        It may be cancelled, and no record may be lost by that.

        Raises:
            Unavailable: The other side does not answer; the runtime tries again.
            ConnectorError: The connector stops with this error.
        """

    @abstractmethod
    async def commit(self) -> None:
        """Do what has to follow now that the records of the last poll are stored and the state is on disk.

        Raises:
            Exception: It is not done. `mode` decides what follows.
        """

    async def lag(self) -> Lag | None:
        """Return the distance from the end of what the source reads; None: not known.

        Called every few seconds between `open` and `close`, also while `poll` or `commit` is in progress.
        """
        return None

    async def close(self) -> None:  # noqa: B027 - optional
        """Release everything. Called once, after an `open` that failed, too."""


@runtime_checkable
class Abandonable(Protocol):
    """A source whose records can be given up, so that its server need not keep them any longer."""

    async def abandon(self) -> str | None:
        """Give up the records of the last poll, and commit as if they were stored.

        Returns:
            The position that was given up to; None: no records were pending.
        """
