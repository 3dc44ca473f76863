"""Prefetch of responses while earlier ones are processed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import grpc

from pyspark_headrace.cluster.node import Responses
from pyspark_headrace.errors import StalledError

_END: Final = object()


class ReadAhead:
    """Reader of a call in a thread of its own.

    The number of prefetched responses is bounded. Leaving the block cancels the call.
    """

    def __init__(self, call: Responses, *, ahead: int, timeout_seconds: float) -> None:
        self._call = call
        self._timeout_seconds = timeout_seconds
        self._queue: queue.Queue[bytes | grpc.RpcError | object] = queue.Queue(ahead)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, name="headrace-read-ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._call.cancel()
        # The thread may be waiting for room in the queue.
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue

    def __iter__(self) -> Iterator[bytes]:
        """Yield responses as they arrive.

        Raises:
            grpc.RpcError: The call has failed.
            StalledError: No response has arrived in time.
        """
        while True:
            try:
                item = self._queue.get(timeout=self._timeout_seconds)
            except queue.Empty:
                raise StalledError(f"no data has arrived for {self._timeout_seconds} s") from None
            if isinstance(item, bytes):
                yield item
            elif isinstance(item, grpc.RpcError):
                raise item
            else:
                return

    def _read(self) -> None:
        try:
            for response in self._call:
                self._queue.put(response)
                if self._is_over.is_set():
                    return
        except grpc.RpcError as error:
            self._queue.put(error)
        else:
            self._queue.put(_END)
