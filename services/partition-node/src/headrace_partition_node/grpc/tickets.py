"""Who may call, and what for: whoever shows a ticket that a service of the cluster has signed."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from grpc import aio

import headrace_core as core
from headrace_partition_node.placements import Found
from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused

TICKET_METADATA: Final = "headrace-ticket"
"""The metadata that carries it."""


Issuer = tuple[int, int, int]
"""A user, the version of the password and the incarnation of the access token of the login, as `headrace_core.Ticket`
has them."""

IssuerMay = Callable[[Issuer, tuple[int, int], bool, bool], bool]
"""Whether the login of a ticket's issuer goes on and may read, or write, a topic: `headrace_core.Node.issuer_may`."""


class Access(Enum):
    """What a caller wants to do with a partition."""

    READ = auto()
    WRITE = auto()


class Ticket(Protocol):
    """`headrace_core.Ticket`: without a stream it is for the whole cluster, without a partition for all of a topic."""

    @property
    def stream_id(self) -> int | None:
        """Of the topic."""

    @property
    def topic_id(self) -> int | None:
        """Of the topic."""

    @property
    def partition_id(self) -> int | None:
        """Of the partition."""

    @property
    def incarnation(self) -> int:
        """Of the partition, or of the topic."""

    @property
    def read(self) -> bool:
        """Whether messages may be read."""

    @property
    def write(self) -> bool:
        """Whether messages may be appended."""

    @property
    def issuer(self) -> Issuer | None:
        """The user who has made it; None: a service has."""


class TicketKey(Protocol):
    """`headrace_core.TicketKey`: recognises the tickets of one cluster."""

    def verify(self, ticket: str, *, now: int) -> Ticket:
        """Say what a ticket opens that is shown at `now`, in seconds since the Unix epoch."""


class Partitions(Protocol):
    """Which there are."""

    def find(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        """Return what the catalogue says of a partition, if it exists."""


class Here(NamedTuple):
    """A partition of this node that a caller may use."""

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int
    purge_epoch: int
    issuer: Issuer | None
    """In whose name the caller may use it; None: in a service's."""
    access: Access


class Tickets:
    """Checks them."""

    def __init__(
        self,
        key: TicketKey,
        partitions: Partitions,
        issuer_may: IssuerMay,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Describe what is checked.

        Args:
            key: Recognises them.
            partitions: Knows which there are.
            issuer_may: Knows whether those who have made tickets may still do what these open.
            clock: Returns seconds since the Unix epoch.
        """
        self._key = key
        self._partitions = partitions
        self._issuer_may = issuer_may
        self._clock = clock

    def shown(self, context: aio.ServicerContext[Any, Any]) -> Ticket:
        """Return the ticket of a call.

        Raises:
            Refused: There is none that is valid.
        """
        presented = [value for name, value in context.invocation_metadata() or () if name == TICKET_METADATA]
        if len(presented) != 1 or not isinstance(presented[0], str):
            raise Refused(Status.INVALID_TICKET, f"a ticket is needed: {TICKET_METADATA}")
        try:
            return self._key.verify(presented[0], now=int(self._clock()))
        except core.TicketError as error:
            raise Refused(Status.INVALID_TICKET, str(error)) from None

    def for_everything(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Check that a call may ask for anything.

        Raises:
            Refused: It may not.
        """
        if self.shown(context).stream_id is not None:
            raise Refused(Status.INVALID_TICKET, "a ticket for the whole cluster is needed")

    def opened(
        self, ticket: Ticket, access: Access, stream_id: int, topic_id: int, partition_id: int, incarnation: int = 0
    ) -> Here:
        """Return a partition that a ticket opens.

        Args:
            ticket: That was shown.
            access: What for.
            stream_id: Of the partition.
            topic_id: Of the partition.
            partition_id: Of the partition.
            incarnation: Which one is meant of those with these numbers; 0: the present one.

        Raises:
            Refused: The ticket does not open it, it does not exist, or it is not here.
        """
        found = self._partitions.find(stream_id, topic_id, partition_id)
        # What somebody may not use he is not told about.
        if ticket.stream_id is not None:
            is_named = (ticket.stream_id, ticket.topic_id) == (stream_id, topic_id)
            is_named = is_named and ticket.partition_id in {None, partition_id}
            if not is_named or not (ticket.read if access is Access.READ else ticket.write):
                raise Refused(Status.INVALID_TICKET, "the ticket does not open this partition for that")
            if found is not None:
                of_ticket = found.topic_incarnation if ticket.partition_id is None else found.incarnation
                if ticket.incarnation != of_ticket:
                    raise Refused(Status.INVALID_TICKET, "the ticket is for an earlier partition with these numbers")
        self._check_issuer(ticket.issuer, (stream_id, topic_id), access)
        if found is None or incarnation not in {0, found.incarnation}:
            raise Refused(Status.PARTITION_NOT_FOUND)
        if not found.is_here:
            raise Refused(Status.PARTITION_ELSEWHERE)
        return Here(stream_id, topic_id, partition_id, found.incarnation, found.purge_epoch, ticket.issuer, access)

    def found(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        """Return what the catalogue says of a partition, if it exists."""
        return self._partitions.find(stream_id, topic_id, partition_id)

    def check_again(self, here: Here) -> Found:
        """Return what the catalogue says of it: it is the same partition still, and on this node.

        Raises:
            Refused: It is not.
        """
        found = self.check_same(here)
        if not found.is_here:
            raise Refused(Status.PARTITION_ELSEWHERE)
        return found

    def check_same(self, here: Here) -> Found:
        """Return what the catalogue says of it, wherever it is.

        Raises:
            Refused: It does not exist any more.
        """
        self._check_issuer(here.issuer, (here.stream_id, here.topic_id), here.access)
        found = self._partitions.find(here.stream_id, here.topic_id, here.partition_id)
        if found is None or found.incarnation != here.incarnation:
            raise Refused(Status.PARTITION_NOT_FOUND)
        return found

    def _check_issuer(self, issuer: Issuer | None, topic: tuple[int, int], access: Access) -> None:
        reads = access is Access.READ
        if issuer is not None and not self._issuer_may(issuer, topic, reads, not reads):
            raise Refused(Status.INVALID_TICKET, "the user who has made the ticket may not do that any more")

    def check_unchanged(self, here: Here) -> None:
        """Check that it is the same partition still, on this node, and that what was in it was not purged.

        Raises:
            Refused: It is not.
        """
        if self.check_again(here).purge_epoch != here.purge_epoch:
            raise Refused(Status.RESOURCE_NOT_FOUND, "the topic was purged: its offsets begin anew")
