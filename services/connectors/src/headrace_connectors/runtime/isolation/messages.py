"""Messages between the process of the connectors and the process of one connector, over a pair of sockets.

The pair has no name that another process could open. The process of a connector trusts its parent: what it is sent may
be any object, as `pickle` makes them. The other way go plain values of known types: a plugin may write anything to the
socket of its process, and none of it is run.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from headrace_connectors.admission.table import Reason
from headrace_connectors.contract import Lag
from headrace_connectors.counters import Counters, SinkCounters
from headrace_connectors.pipeline_file.models import ServerSettings
from headrace_connectors.pipeline_file.pipeline import SinkSpec, SourceSpec
from headrace_connectors.runtime.status import Failure, State, Status

LENGTH: Final = struct.Struct("!I")
"""Length of a message, in front of it."""
BYTES_MAX: Final = 256 << 20
"""Maximum size of a message to the parent; states of sources are in them."""


@dataclass(frozen=True, slots=True)
class Task:
    """The first message: the connector to run."""

    spec: SourceSpec | SinkSpec
    server: ServerSettings
    state: bytes | None
    """State of a source."""
    until: float | None
    """End of the lease by the monotonic clock, which all processes of a machine share; None: there is no end."""


@dataclass(frozen=True, slots=True)
class Until:
    """Message to the child: the lease ends at this time."""

    until: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Message to the child: give up the pending batch."""


class Save(msgspec.Struct, tag=True, frozen=True):
    """Message to the parent: save the state."""

    state: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Message to the child: answer to the last `Save`."""

    error: Exception | None


class Abandoned(msgspec.Struct, tag=True, frozen=True):
    """Message to the parent: answer to the first `Ask` without one."""

    position: str | None = None
    error_code: str | None = None
    """Code of the error of the connector; None: there was none."""
    error: str = ""


class Failed(msgspec.Struct, tag=True, frozen=True):
    """Message to the parent: the process could not begin, and ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Fields of `Status` that the parent shows as its own."""

    state: State
    reason: str | None
    error_code: str | None
    last_error: str | None
    last_error_at: datetime | None
    consecutive_failures: int
    batches_count: int
    records_count: int
    last_commit_at: datetime | None
    last_abandon_at: datetime | None
    last_abandoned: str | None
    errors: tuple[Failure, ...]

    @classmethod
    def of(cls, status: Status) -> Self:
        """Return those of a status."""
        own = {one.name: getattr(status, one.name) for one in fields(cls) if one.name not in ("reason", "errors")}
        reason = status.history[-1].reason if status.history else None
        return cls(**own, reason=reason, errors=tuple(status.errors))


class SourceCounts(msgspec.Struct, tag=True, frozen=True):
    """Fields of `Counters`."""

    routed: int
    refused: dict[Reason, int]
    unmatched: dict[Literal["default", "drop", "error"], int]
    invalid: int
    create_buckets: list[int]
    create_seconds: float

    def counters(self) -> Counters:
        """Return the counters."""
        return Counters(
            self.routed,
            Counter(self.refused),
            Counter(self.unmatched),
            self.invalid,
            self.create_buckets,
            self.create_seconds,
        )


class SinkCounts(msgspec.Struct, tag=True, frozen=True):
    """Fields of `SinkCounters`."""

    written: int
    invalid: int
    dead_letters: int

    def counters(self) -> SinkCounters:
        """Return the counters."""
        return SinkCounters(self.written, self.invalid, self.dead_letters)


def counts_of(counters: Counters | SinkCounters) -> SourceCounts | SinkCounts:
    """Return counters as a part of a message."""
    kind = SourceCounts if isinstance(counters, Counters) else SinkCounts
    return kind(**asdict(counters))


class Report(msgspec.Struct, tag=True, frozen=True):
    """Message to the parent: what the connector does."""

    document: dict[str, Any]
    progress: Progress
    counts: SourceCounts | SinkCounts
    destinations: list[dict[str, Any]] | None
    """Destinations of a source; None: as in the report before."""
    open_circuits_count: int
    lag: Lag | None


ToChild: TypeAlias = Task | Until | Ask | Answer
ToParent: TypeAlias = Save | Abandoned | Failed | Report


def to_child(message: ToChild) -> bytes:
    """Return a message to the child with its length."""
    return _framed(pickle.dumps(message))


def at_child(data: bytes) -> ToChild:
    """Return the message in its bytes, which the parent has sent."""
    message: ToChild = pickle.loads(data)  # noqa: S301 - of the process that has started this one
    return message


def to_parent(message: ToParent) -> bytes:
    """Return a message to the parent with its length."""
    # Reports of plugins and transforms about themselves may be of any type.
    return _framed(msgspec.msgpack.encode(message, enc_hook=str))


def at_parent(data: bytes) -> ToParent:
    """Return the message in its bytes.

    Raises:
        msgspec.MsgspecError: There is none.
    """
    try:
        return _DECODER.decode(data)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"text that is not UTF-8, or nested too deeply: {error}") from error


def _framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


_DECODER: Final[msgspec.msgpack.Decoder[ToParent]] = msgspec.msgpack.Decoder(ToParent)
