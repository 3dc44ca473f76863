"""Staging of one task's batches for one partition, invisible until the commit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Final

import grpc
import xxhash

from headrace_proto.partition import v1
from pyspark_headrace.cluster.node import Staging, stage
from pyspark_headrace.cluster.retrying import said
from pyspark_headrace.errors import IncompleteError, UnreachableError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.staged import Part
from pyspark_headrace.write.destination import Destination
from pyspark_headrace.write.target import Target

_END: Final = None


class Stager:
    """One stage. While its batches are buffered, a failed call is repeated from the beginning."""

    def __init__(
        self, target: Target, partition_id: int, options: WriteOptions, moved: threading.Condition, *, keeps: bool
    ) -> None:
        """Prepare a stage. The call starts with the first batch.

        Args:
            target: Topic.
            partition_id: Partition of this stage.
            options: Options of the sink.
            moved: Condition notified whenever a batch is sent or the call ends.
            keeps: Buffer batches until they are stored.
        """
        self._destination = Destination(target, partition_id, options)
        self._options = options
        self._moved = moved
        self._kept: list[tuple[int, bytes]] | None = [] if keeps else None
        self._messages_count = 0
        self._digest = xxhash.xxh3_64()
        self._call: _Call | None = None

    @property
    def unsent(self) -> int:
        """Number of batches that wait to be sent."""
        return self._call.unsent if self._call is not None else 0

    def send(self, messages_count: int, batch: bytes) -> None:
        """Send a batch without waiting."""
        self._messages_count += messages_count
        self._digest.update(batch)
        if self._call is None:
            self._open()
        assert self._call is not None  # noqa: S101 - opened above
        if self._kept is not None:
            self._kept.append((messages_count, batch))
        self._call.send(messages_count, batch)

    def let_go(self) -> None:
        """Stop buffering batches: the memory limit is exceeded.

        Raises:
            ServerRefusedError: The node refuses the batches.
            UnreachableError: No server answers.
        """
        while self._call is not None and self._call.is_over:
            self._again()
        self._kept = None

    def check(self) -> None:
        """Check that an unbuffered call is still running.

        Raises:
            UnreachableError: The call has ended.
        """
        if self._call is not None and self._call.is_over:
            self._again()

    def finish(self) -> None:
        """Close the request stream."""
        if self._call is not None:
            self._call.finish()

    def take_answer(self) -> Part:
        """Wait, after `finish`, until all batches are on disk.

        Raises:
            IncompleteError: The node has stored something else.
            ServerRefusedError: The node refuses the stage.
            UnreachableError: No server answers.
        """
        while (answer := self._answer()) is None:
            assert self._call is not None  # noqa: S101 - there is another one
            self._call.finish()
        if (answer.messages_count, answer.digest) != (self._messages_count, self._digest.intdigest()):
            raise IncompleteError(
                f"{self._destination.title}: {self._messages_count} messages were sent, and {answer.messages_count} "
                "or others were stored"
            )
        place = self._destination.place
        return Part(
            place.topic_id,
            place.partition_id,
            place.incarnation,
            answer.stage_id,
            answer.messages_count,
            answer.digest,
        )

    def close(self) -> None:
        """Cancel the call if it is running. Its stage cannot be committed after that."""
        if self._call is not None:
            self._call.close()
            self._call = None

    def _open(self) -> None:
        self._call = _Call(self._destination, self._options, self._moved)
        for messages_count, batch in self._kept or ():
            self._call.send(messages_count, batch)

    def _again(self) -> None:
        if self._answer() is not None:
            raise IncompleteError(f"{self._destination.title}: the node has ended a stage of its own accord")

    def _answer(self) -> v1.StageResponse | None:
        """Return the response of the call; None if the call has failed and a new one was started."""
        assert self._call is not None  # noqa: S101 - opened with the first batch
        try:
            return self._call.answer(self._options.append_timeout_ms / 1000)
        except grpc.RpcError as error:
            if self._kept is None:
                raise UnreachableError(
                    f"{self._destination.title}: {said(error)}, with more staged than is kept to send it again"
                ) from error
            self.close()
            self._destination.failed(error)
        except grpc.FutureTimeoutError as error:
            if self._kept is None:
                raise UnreachableError(f"{self._destination.title}: no answer in time") from error
            self.close()
            self._destination.stalled(error)
        self._open()
        return None


class _Call:
    """One `Stage` call: a stream of requests and a single response."""

    def __init__(self, destination: Destination, options: WriteOptions, moved: threading.Condition) -> None:
        self._first: v1.StageRequest | None = v1.StageRequest(
            place=destination.place, lifetime_seconds=options.stage_lifetime_ms // 1000
        )
        self._moved = moved
        self._requests: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self.unsent = 0
        self._call: Staging = stage(destination.channel(), self._given(), destination.ticket)
        self._call.add_done_callback(self._finish)

    @property
    def is_over(self) -> bool:
        return self._call.done()

    def send(self, messages_count: int, batch: bytes) -> None:
        with self._moved:
            self.unsent += 1
        self._requests.put((messages_count, batch))

    def finish(self) -> None:
        self._requests.put(_END)

    def answer(self, timeout_seconds: float) -> v1.StageResponse:
        return self._call.result(timeout_seconds)

    def close(self) -> None:
        self._requests.put(_END)
        self._call.cancel()

    def _given(self) -> Iterator[v1.StageRequest]:
        first, self._first = self._first, None
        if first is not None:
            yield first
        while (request := self._requests.get()) is not _END:
            yield v1.StageRequest(messages_count=request[0], batch=request[1])
            # gRPC asks for the next request once the connection has accepted this one.
            with self._moved:
                self.unsent -= 1
                self._moved.notify_all()

    def _finish(self, _: object) -> None:
        with self._moved:
            self._moved.notify_all()
