"""Append batches to one partition."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator
from typing import Final

import grpc

from headrace_proto.partition import v1
from pyspark_headrace.cluster.node import append
from pyspark_headrace.cluster.readahead import ReadAhead
from pyspark_headrace.errors import StalledError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.write.destination import Destination
from pyspark_headrace.write.target import Target

_END: Final = None


class Appender:
    """Appender for one partition. Keeps the order of batches and resends unacknowledged ones after a failure."""

    def __init__(self, target: Target, partition_id: int, options: WriteOptions) -> None:
        self._destination = Destination(target, partition_id, options)
        self._options = options
        self._unanswered: deque[tuple[int, bytes]] = deque()
        self._call: _Call | None = None

    def send(self, messages_count: int, batch: bytes) -> None:
        """Send a batch without waiting for its acknowledgement."""
        self._unanswered.append((messages_count, batch))
        if self._call is None:
            self._open()
        else:
            self._call.send(messages_count, batch)

    def take_answer(self) -> None:
        """Wait until the oldest batch is as durable as its topic promises.

        Raises:
            ServerRefusedError: The node rejects the batch for good.
            UnreachableError: No server answers.
        """
        while True:
            if self._call is None:
                self._open()
            try:
                assert self._call is not None  # noqa: S101 - opened above
                self._call.answer()
            except grpc.RpcError as error:
                self._destination.failed(error)
            except (StalledError, StopIteration) as error:
                self._destination.stalled(error)
            else:
                self._unanswered.popleft()
                self._destination.progressed()
                return
            self.close()

    def close(self) -> None:
        """Close the call."""
        if self._call is not None:
            self._call.close()
            self._call = None

    def _open(self) -> None:
        self._call = _Call(self._destination, self._options)
        for messages_count, batch in self._unanswered:
            self._call.send(messages_count, batch)


class _Call:
    """One `Append` call: a stream of requests and a stream of responses."""

    def __init__(self, destination: Destination, options: WriteOptions) -> None:
        self._place: v1.Place | None = destination.place
        self._requests: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        call = append(destination.channel(), self._given(), destination.ticket)
        self._answers = ReadAhead(
            call, ahead=options.max_in_flight + 1, timeout_seconds=options.append_timeout_ms / 1000
        )
        self._answers.__enter__()
        self._iterator = iter(self._answers)

    def send(self, messages_count: int, batch: bytes) -> None:
        self._requests.put((messages_count, batch))

    def answer(self) -> None:
        next(self._iterator)

    def close(self) -> None:
        self._requests.put(_END)
        self._answers.__exit__(None, None, None)

    def _given(self) -> Iterator[v1.AppendRequest]:
        while (request := self._requests.get()) is not _END:
            place, self._place = self._place, None
            yield v1.AppendRequest(place=place, messages_count=request[0], batch=request[1])
