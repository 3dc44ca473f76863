"""Classification of failed calls to a partition node: retryable or not, and the preparation that a retry needs."""

from __future__ import annotations

from typing import NamedTuple

import grpc

from headrace_proto.errors import Status
from pyspark_headrace.cluster import credentials
from pyspark_headrace.cluster.retrying import is_worthwhile, said, status_of
from pyspark_headrace.errors import ServerRefusedError, TicketExpiredError
from pyspark_headrace.options.connection import ConnectionOptions


class Remedy(NamedTuple):
    """Preparation for a retry: what to request from a gateway, if anything."""

    needs_ticket: bool
    """The ticket has expired."""
    can_look: bool
    """A metadata lookup is useful and possible: the partition may have moved or the ticket expired, and this process
    has credentials.
    """


def remedy(error: grpc.RpcError, title: str, options: ConnectionOptions, *, is_ticket_new: bool) -> Remedy:
    """Return the preparation that may let a retry succeed.

    Args:
        error: Error that ended the call.
        title: Name of the partition, for messages.
        options: Options, for the credentials.
        is_ticket_new: This task has requested the ticket itself; another one would be no better.

    Raises:
        TicketExpiredError: The ticket has expired, and this process cannot request another.
        ServerRefusedError: A retry would fail as well.
    """
    status = status_of(error)
    needs_ticket = status == Status.INVALID_TICKET
    can_ask = credentials.are_here(options)
    if needs_ticket and not can_ask:
        raise TicketExpiredError(
            f"{title}: {said(error)}. The ticket was made when the task was planned; tasks get another one only where "
            "the token or password of the options can be read",
            status,
        ) from error
    if (needs_ticket and is_ticket_new) or not (needs_ticket or is_worthwhile(error)):
        raise ServerRefusedError(f"{title}: {said(error)}", status) from error
    return Remedy(needs_ticket, can_ask and (needs_ticket or not status or status == Status.PARTITION_ELSEWHERE))
