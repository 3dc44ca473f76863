"""Destination partition of a write: leader, ticket and error handling."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import grpc

from headrace_proto.partition import v1
from pyspark_headrace.cluster import credentials
from pyspark_headrace.cluster.call_errors import remedy
from pyspark_headrace.cluster.description import Partition
from pyspark_headrace.cluster.retrying import Attempts, said
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import ServerRefusedError, UnreachableError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.write.target import Target, find

_log: Final = logging.getLogger(__name__)


class Destination:
    """One partition of a topic.

    Looks up the leader or a new ticket after the partition has moved or the ticket has expired.
    """

    def __init__(self, target: Target, partition_id: int, options: WriteOptions) -> None:
        self._target = target
        self._partition_id = partition_id
        self._options = options
        self._attempts = Attempts(options)
        self._is_ticket_new = False

    @property
    def place(self) -> v1.Place:
        """Partition that a call names."""
        topic = self._target.topic
        return v1.Place(
            stream_id=topic.stream_id,
            topic_id=topic.topic_id,
            partition_id=self._partition_id,
            incarnation=self._partition.incarnation,
        )

    @property
    def ticket(self) -> str:
        """Ticket that authorizes appending to the topic."""
        return self._target.ticket

    @property
    def title(self) -> str:
        """Name of the partition in messages."""
        return f"{self._target.topic.title}, partition {self._partition_id}"

    def channel(self) -> grpc.Channel:
        """Return the channel to the leader."""
        return runtime().node(self._partition.address, self._options)

    def progressed(self) -> None:
        """Reset the retry count after a call has made progress."""
        self._attempts.progressed()
        self._is_ticket_new = False

    def failed(self, error: grpc.RpcError) -> None:
        """Handle a failed call: back off, and look up what the next call needs.

        Raises:
            ServerRefusedError: Another call would fail as well.
            UnreachableError: All retries are used up.
        """
        found = remedy(error, self.title, self._options, is_ticket_new=self._is_ticket_new)
        address = self._partition.address
        if not self._attempts.again():
            raise UnreachableError(f"{self.title}: {address} fails: {said(error)}") from error
        _log.info("%s: %s from %s; sending again", self.title, said(error), address)
        if found.can_look and self._look_again():
            self._is_ticket_new = found.needs_ticket

    def stalled(self, error: Exception) -> None:
        """Handle a call without an answer: back off, and look up what the next call needs.

        Raises:
            ServerRefusedError: Another call would fail as well.
            UnreachableError: All retries are used up.
        """
        if not self._attempts.again():
            raise UnreachableError(f"{self.title}: {self._partition.address} does not answer") from error
        # The partition may have moved: the connection to a machine without power does not break.
        if credentials.are_here(self._options):
            self._look_again()

    @property
    def _partition(self) -> Partition:
        return next(part for part in self._target.topic.partitions if part.partition_id == self._partition_id)

    def _look_again(self) -> bool:
        """Look up the leader and request a ticket. Returns whether a gateway has answered."""
        before = self._target.topic
        try:
            # One round over the gateways: the caller retries.
            found = find(replace(self._options.each_server_once(), create_topic=False), before.name)
        except UnreachableError:
            # The leader may become reachable sooner than a gateway.
            return False
        if found.topic.incarnation != before.incarnation:
            raise ServerRefusedError(f"{self.title}: the topic was created again since the task was planned")
        if all(part.partition_id != self._partition_id for part in found.topic.partitions):
            raise ServerRefusedError(f"{self.title}: the partition no longer exists")
        self._target = found
        return True
