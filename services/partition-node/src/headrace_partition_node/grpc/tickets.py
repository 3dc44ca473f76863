"""Authorization of calls by tickets signed by a service of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol

from grpc import aio

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_partition_node.placements import Found
from headrace_proto.errors import Status

TICKET_METADATA: Final = "headrace-ticket"
"""Metadata key of the ticket."""


Issuer = tuple[int, int, int]
"""Issuer of a ticket: user, version of the password and incarnation of the access token of the login, as in
`headrace_core.Ticket`.
"""

IssuerMay = Callable[[Issuer, tuple[int, int], bool, bool], bool]
"""Returns whether the login of a ticket's issuer is still valid and may read or write a topic:
`headrace_core.Node.issuer_may`.
"""


class Access(Enum):
    """Access mode of a caller to a partition."""

    READ = auto()
    WRITE = auto()


class Ticket(Protocol):
    """Claims of `headrace_core.Ticket`.

    Without a stream it covers the whole cluster, without a partition all of a topic.
    """

    @property
    def stream_id(self) -> int | None:
        """Id of the topic's stream."""

    @property
    def topic_id(self) -> int | None:
        """Id of the topic."""

    @property
    def partition_id(self) -> int | None:
        """Id of the partition."""

    @property
    def incarnation(self) -> int:
        """Incarnation of the partition, or of the topic."""

    @property
    def read(self) -> bool:
        """True if messages may be read."""

    @property
    def write(self) -> bool:
        """True if messages may be appended."""

    @property
    def issuer(self) -> Issuer | None:
        """User who issued the ticket; None: a service issued it."""


class TicketKey(Protocol):
    """Verifier of one cluster's tickets, `headrace_core.TicketKey`."""

    def verify(self, ticket: str, *, now: int) -> Ticket:
        """Return the claims of a ticket presented at `now`, in seconds since the Unix epoch."""


class Partitions(Protocol):
    """Look-up of partitions."""

    def find(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        """Return a partition's record in the catalog, if it exists."""


class CoveredPartition(NamedTuple):
    """A partition of this node that the ticket covers."""

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int
    purge_epoch: int
    issuer: Issuer | None
    """Issuer of the ticket; None: a service."""
    access: Access

    @property
    def user(self) -> int | None:
        """User for whom the caller works; None: a service."""
        return None if self.issuer is None else self.issuer[0]


def user_of(ticket: Ticket) -> int | None:
    """Return the user who issued a ticket; None: a service."""
    return None if ticket.issuer is None else ticket.issuer[0]


class Tickets:
    """Checks tickets."""

    def __init__(
        self,
        key: TicketKey,
        partitions: Partitions,
        issuer_may: IssuerMay,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Configure the checks.

        Args:
            key: Verifies signatures.
            partitions: Look-up of partitions.
            issuer_may: Returns whether the issuer of a ticket still has the permissions that it grants.
            clock: Returns seconds since the Unix epoch.
        """
        self._key = key
        self._partitions = partitions
        self._issuer_may = issuer_may
        self._clock = clock

    def shown(self, context: aio.ServicerContext[Any, Any]) -> Ticket:
        """Return the ticket of a call.

        Raises:
            Refused: The call has no valid ticket.
        """
        presented = [value for name, value in context.invocation_metadata() or () if name == TICKET_METADATA]
        if len(presented) != 1 or not isinstance(presented[0], str):
            raise Refused(Status.INVALID_TICKET, f"a ticket is needed: {TICKET_METADATA}")
        try:
            return self._key.verify(presented[0], now=int(self._clock()))
        except core.TicketError as error:
            raise Refused(Status.INVALID_TICKET, str(error)) from None

    def for_everything(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Check that a call has a ticket for the whole cluster.

        Raises:
            Refused: The ticket does not cover the whole cluster.
        """
        if self.shown(context).stream_id is not None:
            raise Refused(Status.INVALID_TICKET, "a ticket for the whole cluster is required")

    def opened(
        self, ticket: Ticket, access: Access, stream_id: int, topic_id: int, partition_id: int, incarnation: int = 0
    ) -> CoveredPartition:
        """Return a partition that a ticket covers.

        Args:
            ticket: Presented ticket.
            access: Access mode.
            stream_id: Id of the partition's stream.
            topic_id: Id of the partition's topic.
            partition_id: Id of the partition.
            incarnation: Expected incarnation of the partition; 0: any.

        Raises:
            Refused: The ticket does not cover the partition, the partition does not exist, or it is on another node.
        """
        found = self._partitions.find(stream_id, topic_id, partition_id)
        # Check the ticket first: a caller without permission must not learn whether the partition exists.
        if ticket.stream_id is not None:
            is_named = (ticket.stream_id, ticket.topic_id) == (stream_id, topic_id)
            is_named = is_named and ticket.partition_id in {None, partition_id}
            if not is_named or not (ticket.read if access is Access.READ else ticket.write):
                raise Refused(Status.INVALID_TICKET, "the ticket does not permit this operation on this partition")
            if found is not None:
                of_ticket = found.topic_incarnation if ticket.partition_id is None else found.incarnation
                if ticket.incarnation != of_ticket:
                    raise Refused(Status.INVALID_TICKET, "the ticket is for a deleted partition with the same ids")
        self._check_issuer(ticket.issuer, (stream_id, topic_id), access)
        if found is None or incarnation not in {0, found.incarnation}:
            raise Refused(Status.PARTITION_NOT_FOUND)
        if not found.is_here:
            raise Refused(Status.PARTITION_ELSEWHERE)
        return CoveredPartition(
            stream_id, topic_id, partition_id, found.incarnation, found.purge_epoch, ticket.issuer, access
        )

    def found(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        """Return a partition's record in the catalog, if it exists."""
        return self._partitions.find(stream_id, topic_id, partition_id)

    def check_again(self, covered: CoveredPartition) -> Found:
        """Return the catalog record of the same partition, still on this node.

        Raises:
            Refused: The partition was deleted, replaced or moved.
        """
        found = self.check_same(covered)
        if not found.is_here:
            raise Refused(Status.PARTITION_ELSEWHERE)
        return found

    def check_same(self, covered: CoveredPartition) -> Found:
        """Return the catalog record of the same partition, on any node.

        Raises:
            Refused: The partition was deleted.
        """
        self._check_issuer(covered.issuer, (covered.stream_id, covered.topic_id), covered.access)
        found = self._partitions.find(covered.stream_id, covered.topic_id, covered.partition_id)
        if found is None or found.incarnation != covered.incarnation:
            raise Refused(Status.PARTITION_NOT_FOUND)
        return found

    def _check_issuer(self, issuer: Issuer | None, topic: tuple[int, int], access: Access) -> None:
        reads = access is Access.READ
        if issuer is not None and not self._issuer_may(issuer, topic, reads, not reads):
            raise Refused(Status.INVALID_TICKET, "the user who created the ticket no longer has the permission")

    def check_unchanged(self, covered: CoveredPartition) -> None:
        """Check that the partition is still the same, on this node, and was not purged.

        Raises:
            Refused: The partition was deleted, moved or purged.
        """
        if self.check_again(covered).purge_epoch != covered.purge_epoch:
            raise Refused(Status.RESOURCE_NOT_FOUND, "the topic was purged: its offsets start at 0 again")
