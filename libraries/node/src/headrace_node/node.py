"""One native node on an asyncio loop, and the handling of its control requests."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from headrace_chassis.errors import StartRefused
from headrace_node.connections.caller import INTERFACES, Caller
from headrace_node.errors import NotRunning
from headrace_node.native import NativeNode
from headrace_proto.catalog.v1 import Snapshot, Update
from headrace_proto.control.v1 import Reply, Request
from headrace_proto.errors import Status

Handler = Callable[[Request], Awaitable[Reply]]
"""Handler of one control request. All changes it makes to the catalog are published before it returns."""

_RECOVERY_POLL_SECONDS = 0.01

_log = logging.getLogger(__name__)


class Recovery(NamedTuple):
    """Progress of the recovery at startup."""

    partitions_count: int
    recovering_count: int


class Node:
    """A running node, as an asynchronous context manager.

    ``publish_snapshot``, then ``async with``, then ``listen``: a client that connects in the first moment must find a
    catalog and partitions that have recovered. Requests of one connection arrive one at a time, those of different
    connections are handled concurrently; the number of waiting requests is bounded by the number of connections.
    """

    def __init__(self, native: NativeNode, handle: Handler, *, stop_timeout_seconds: float = 30.0) -> None:
        self._native = native
        self._handle = handle
        self._stop_timeout_seconds = stop_timeout_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._facts: dict[str, str] = {}

    @property
    def tcp_address(self) -> str:
        """Bound address of the TCP listener; empty if there is none."""
        return self._facts.get("tcp_address", "")

    @property
    def websocket_address(self) -> str:
        """Bound address of the WebSocket listener; empty if there is none."""
        return self._facts.get("websocket_address", "")

    @property
    def driver(self) -> str:
        """I/O driver: ``uring`` or ``poll``."""
        return self._facts.get("driver", "")

    @property
    def driver_reason(self) -> str:
        """Reason why the driver is not io_uring; empty if it is."""
        return self._facts.get("driver_reason", "")

    @property
    def shards_count(self) -> int:
        """Number of shard threads."""
        return int(self._facts.get("shards", "0"))

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole catalog of the shards."""
        self._native.publish_snapshot(snapshot.SerializeToString())

    def publish_update(self, update: Update) -> None:
        """Apply one committed change to the catalog; all shards use it when this returns."""
        self._native.publish_update(update.SerializeToString())

    def open_session(self, user_id: int, caller: Caller | None = None) -> socket.socket:
        """Connect to the node, logged in as an authenticated user.

        Args:
            user_id: The user.
            caller: Origin of the request, if the connection is for one request.

        Returns:
            A stream socket that speaks the binary protocol and that the caller closes.

        Raises:
            NotRunning: The node is not running, or cannot accept another connection now.
        """
        try:
            if caller is None:
                return socket.socket(fileno=self._native.open_session(user_id))
            interface = INTERFACES.index(caller.transport) if caller.transport in INTERFACES else 0
            return socket.socket(fileno=self._native.open_session(user_id, caller.address, interface))
        except Exception as error:
            raise NotRunning(str(error)) from error

    def statistics(self) -> dict[str, Any]:
        """Counters of shards, memory and partitions by their native names, and the driver in use."""
        counters: dict[str, Any] = json.loads(self._native.stats_json())
        return counters | {"driver": self.driver, "driver_reason": self.driver_reason}

    def stages_count(self) -> int:
        """Number of staged batches in the partitions, waiting to be committed or dropped."""
        return sum(shard.get("stages", 0) for shard in self.statistics().get("shards", ()))

    def recovery(self) -> Recovery:
        """Progress of the partitions' recovery."""
        return Recovery(*self._native.recovery())

    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves after a failure: ``stream/topic/partition`` and the reason."""
        return self._native.failures()

    def contacts(self) -> list[tuple[int, int, bool]]:
        """Runs of partition nodes that were tried: id of the node, incarnation, and whether it is reached."""
        return self._native.contacts()

    async def __aenter__(self) -> Self:
        """Bind the address, start the threads and begin to recover the partitions.

        Raises:
            StartRefused: An address is in use, the CPUs do not exist, or the data cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._facts = await self._start()
        except Exception as error:
            raise StartRefused(str(error)) from error
        self._loop.add_reader(self._native.fileno(), self._take_requests)
        return self

    async def _start(self) -> dict[str, str]:
        starting = asyncio.ensure_future(asyncio.to_thread(self._native.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread cannot be interrupted, and its shards would outlive the listeners in front of them.
            await asyncio.wait({starting})
            if starting.exception() is None:
                await asyncio.to_thread(self._native.stop, self._stop_timeout_seconds)
            raise

    async def listen(self, on_recovery: Callable[[Recovery], None] = lambda _: None) -> None:
        """Wait until every partition has recovered or failed, then accept connections.

        Args:
            on_recovery: Called with the progress several times a second and once at the end.
        """
        while True:
            recovery = self.recovery()
            on_recovery(recovery)
            if recovery.recovering_count == 0:
                break
            await asyncio.sleep(_RECOVERY_POLL_SECONDS)
        self._native.listen()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shut down: requests of clients are answered before the threads end."""
        if self._loop is None:
            raise NotRunning("the node was never started")
        try:
            # Keep reading control requests: requests in flight may be waiting for an answer from here.
            in_time = await asyncio.to_thread(self._native.stop, self._stop_timeout_seconds)
        finally:
            self._loop.remove_reader(self._native.fileno())
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if not in_time:
            _log.warning("stopped after %g s with requests still unanswered", self._stop_timeout_seconds)

    def _take_requests(self) -> None:
        for request_id, encoded in self._native.take_requests():
            task = asyncio.ensure_future(self._answer(request_id, encoded))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request_id: int, encoded: bytes) -> None:
        reply = Reply(status=Status.ERROR)
        try:
            reply = await self._handle(Request.FromString(encoded))
        except Exception:  # noqa: BLE001 - see below
            # One request must not affect the others: its client receives an error, and the log has the traceback.
            _log.exception("control request %d failed", request_id)
        finally:
            # A cancelled request is answered too: its connection would wait for ever.
            self._native.reply(request_id, reply.SerializeToString())
