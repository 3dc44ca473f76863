"""A call to a partition node that has failed: whether another one may succeed, and what it takes."""

from __future__ import annotations

from typing import NamedTuple

import grpc

from headrace_proto.errors import Status
from pyspark_headrace import credentials
from pyspark_headrace.errors import ServerRefusedError, TicketExpiredError
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.retrying import is_worthwhile, said, status_of


class Remedy(NamedTuple):
    """What is to be asked of a gateway before another call, if anything."""

    needs_ticket: bool
    """The ticket is over."""
    can_look: bool
    """The partition may be elsewhere, or the ticket is over, and this process may ask."""


def remedy(error: grpc.RpcError, title: str, options: ConnectionOptions, *, is_ticket_new: bool) -> Remedy:
    """Say what may let another call succeed.

    Args:
        error: What the call has ended with.
        title: Of the partition, for people.
        options: Whether there are credentials.
        is_ticket_new: This task has asked for the ticket itself: another one would be no better.

    Raises:
        TicketExpiredError: The ticket is over, and this process cannot ask for another.
        ServerRefusedError: Another call would fail as well.
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
