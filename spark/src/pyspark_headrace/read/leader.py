"""Reads from the leader of a partition, which may change during a task."""

from __future__ import annotations

import logging
from typing import Final

import grpc

from headrace_proto.errors import Status
from headrace_proto.partition import v1
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from pyspark_headrace.cluster.call_errors import remedy
from pyspark_headrace.cluster.description import Topic
from pyspark_headrace.cluster.gateway import READ, Gateway, is_missing
from pyspark_headrace.cluster.node import TICKET_METADATA, Range, Responses, fetch
from pyspark_headrace.cluster.retrying import Attempts, said, status_of
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import DataLossError, ServerRefusedError, UnreachableError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.splits import Split

_log: Final = logging.getLogger(__name__)
_CALL_SECONDS: Final = 30.0

_GONE: Final = (Status.PARTITION_NOT_FOUND, Status.RESOURCE_NOT_FOUND)


class Holder:
    """Client of the leader of a task's partition. The first address comes from the driver, later ones from gateways."""

    def __init__(self, split: Split, options: ReadOptions) -> None:
        self._split = split
        self._options = options
        self._address = split.address
        self._ticket = split.ticket
        self._is_ticket_new = False

    def fetch(self, start: int) -> Responses:
        """Start a fetch at an offset, up to the end of the task."""
        split = self._split
        wanted = Range(split.stream_id, split.topic_id, split.partition_id, split.incarnation, start, split.end)
        channel = runtime().node(self._address, self._options)
        return fetch(channel, wanted, self._ticket, self._options.fetch_bytes)

    def progressed(self) -> None:
        """Note that the leader has accepted the ticket: a later refusal is about its end, and another one helps."""
        self._is_ticket_new = False

    def bounds(self, at_micros: int | None = None) -> v1.PartitionOffsets:
        """Return the current offsets and the incarnation of the partition.

        Args:
            at_micros: Time whose first offset is looked up as well, in microseconds since the Unix epoch.

        Raises:
            DataLossError: The partition does not exist any more.
            ServerRefusedError: The ticket is not valid for the partition.
            UnreachableError: No server answers.
        """
        attempts = Attempts(self._options)
        timeout_seconds = min(self._options.fetch_timeout_ms / 1000, _CALL_SECONDS)
        request = v1.GetOffsetsRequest(
            stream_id=self._split.stream_id,
            topic_id=self._split.topic_id,
            partition_ids=[self._split.partition_id],
            timestamp_micros=at_micros,
        )
        while True:
            stub = PartitionStub(runtime().node(self._address, self._options))
            try:
                response = stub.GetOffsets(
                    request, metadata=((TICKET_METADATA, self._ticket),), timeout=timeout_seconds
                )
            except grpc.RpcError as error:
                self.failed(error, attempts)
            else:
                self.progressed()
                return response.partitions[0]

    def failed(self, error: grpc.RpcError, attempts: Attempts) -> None:
        """Handle a failed call: back off, and look the leader up again if necessary.

        Raises:
            DataLossError: The partition does not exist any more.
            ServerRefusedError: A retry would fail as well.
            UnreachableError: All retries are used up.
        """
        if status_of(error) in _GONE:
            raise DataLossError(f"{self._split.title}: {said(error)}") from error
        found = remedy(error, self._split.title, self._options, is_ticket_new=self._is_ticket_new)
        if not attempts.again():
            raise UnreachableError(
                f"{self._split.title}: {self._address} fails, as often as retry.max allows: {said(error)}"
            ) from error
        _log.info("%s: %s from %s; trying again", self._split.title, said(error), self._address)
        if found.can_look:
            self._look_again(needs_ticket=found.needs_ticket)

    def _look_again(self, *, needs_ticket: bool) -> None:
        # One round over the gateways: the caller retries.
        gateway = Gateway(self._options.each_server_once())
        try:
            topic = gateway.describe(self._split.stream, (self._split.topic,)).topics[self._split.topic]
            self._take_address(topic)
            if needs_ticket:
                self._ticket = gateway.ticket(topic, READ).text
                self._is_ticket_new = True
        except UnreachableError:
            # The leader may become reachable sooner than a gateway.
            return
        except ServerRefusedError as error:
            if is_missing(error):
                raise DataLossError(f"{self._split.title}: the topic no longer exists") from error
            raise

    def _take_address(self, topic: Topic) -> None:
        for partition in topic.partitions:
            if partition.partition_id == self._split.partition_id and partition.incarnation == self._split.incarnation:
                self._address = partition.address or self._address
                return
        raise DataLossError(f"{self._split.title}: the partition no longer exists; there is one with its name")
