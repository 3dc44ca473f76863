"""The process of one connector: ``python -m headrace_connectors.runtime.isolation.child FD``.

A thread reads what the parent sends. It ends the process when the parent is gone or the lease is over, also when the
connector blocks the event loop.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import threading
import time
from typing import Final

from headrace.aio.client import Client
from headrace.sdk.errors import HeadraceError
from headrace_chassis import log_output
from headrace_chassis.log_output import LoggingSettings
from headrace_connectors.contract import ConnectorError, Lag
from headrace_connectors.garbage_collection import loaded_objects_frozen
from headrace_connectors.pipeline_file.pipeline import SourceSpec
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.isolation.messages import (
    LENGTH,
    Abandoned,
    Answer,
    Ask,
    Failed,
    Progress,
    Report,
    Save,
    Task,
    ToChild,
    ToParent,
    Until,
    at_child,
    counts_of,
    to_parent,
)
from headrace_connectors.runtime.sink_connector import SinkConnector
from headrace_connectors.runtime.source_connector import SourceConnector
from headrace_connectors.runtime.status import Change
from headrace_connectors.server_client import client_of

ORPHANED: Final = 70
"""Exit status of a process whose parent is gone."""
LEASE_OVER: Final = 71
"""Exit status of a process whose lease was not renewed in time."""
REPORT_SECONDS: Final = 0.5
_LAG_SECONDS: Final = 5.0
_DESTINATIONS_PER_SECOND: Final = 1000


class Pipe:
    """The connection to the parent.

    Args:
        connection: A connected socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.until: float | None = None

    def send(self, message: ToParent) -> None:
        """Send a message."""
        with self._sending:
            try:
                self._connection.sendall(to_parent(message))
            except OSError:
                os._exit(ORPHANED)

    def receive(self) -> ToChild:
        """Wait for a message; end the process if none can come any more, or the lease is over."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return at_child(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            self._connection.settimeout(None if self.until is None else max(0.001, self.until - time.monotonic()))
            try:
                piece = self._connection.recv(count - len(data))
            except TimeoutError:
                if self.until is not None and time.monotonic() >= self.until:
                    os._exit(LEASE_OVER)
                continue
            except OSError:
                piece = b""
            if not piece:
                os._exit(ORPHANED)
            data += piece
        return data


class _Child:
    """The connector of this process, and its states, which the parent keeps."""

    def __init__(self, pipe: Pipe, task: Task) -> None:
        self._pipe = pipe
        self._task = task
        self._answer: asyncio.Future[Answer] | None = None
        self._loop = asyncio.get_running_loop()
        self._connector: asyncio.Future[Connector] = self._loop.create_future()
        self._destinations_due_at = 0.0
        self._lag: Lag | None = None

    async def run(self) -> None:
        # Read from the start: the lease that came with the task may be over by now, and was renewed since.
        threading.Thread(target=self._reading, name="parent", daemon=True).start()
        async with client_of(self._task.server) as client:
            connector = self._created(client)
            asking = asyncio.Event()
            self._loop.add_signal_handler(signal.SIGTERM, asking.set)
            connector.lease = _ParentLease(self._pipe)
            connector.start()
            self._connector.set_result(connector)
            log_change = connector.status.on_change

            def on_change(change: Change) -> None:
                log_change(change)
                self._report(connector)

            connector.status.on_change = on_change
            measuring = asyncio.create_task(self._measuring(connector))
            ending = asyncio.create_task(connector.ended())
            asked = asyncio.create_task(asking.wait())
            stopping: asyncio.Task[None] | None = None
            while not ending.done():
                self._report(connector)
                waiting = {ending} if stopping is not None else {ending, asked}
                await asyncio.wait(waiting, timeout=REPORT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if asking.is_set() and stopping is None:
                    stopping = asyncio.create_task(connector.stop())
            measuring.cancel()
            self._report(connector, is_last=True)

    async def load(self, key: str, plugin: str) -> bytes | None:
        """Return the state, which came with the task."""
        del key, plugin
        return self._task.state

    async def save(self, key: str, plugin: str, state: bytes) -> None:
        """Have the parent save the state.

        Raises:
            Exception: As the parent's store raises.
        """
        del key, plugin
        self._answer = self._loop.create_future()
        self._pipe.send(Save(state))
        answer = await self._answer
        if answer.error is not None:
            raise answer.error

    def _created(self, client: Client) -> SourceConnector | SinkConnector:
        spec = self._task.spec
        if isinstance(spec, SourceSpec):
            return SourceConnector(spec, client, self)
        return SinkConnector(spec, client)

    def _reading(self) -> None:
        while True:
            match self._pipe.receive():
                case Until(until):
                    self._pipe.until = until
                case Answer() as answer:
                    self._loop.call_soon_threadsafe(self._answered, answer)
                case Ask():
                    asyncio.run_coroutine_threadsafe(self._abandon(), self._loop)
                case other:
                    raise AssertionError(f"the parent sends no {type(other).__name__}")

    async def _measuring(self, connector: Connector) -> None:
        while True:
            try:
                self._lag = await connector.lag()
            except Exception:  # noqa: BLE001 - as if it were not known
                self._lag = None
            await asyncio.sleep(_LAG_SECONDS)

    def _answered(self, answer: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def _abandon(self) -> None:
        connector = await self._connector
        try:
            answer = Abandoned(await connector.abandon())
        except Exception as error:  # noqa: BLE001 - raised again by the parent
            answer = Abandoned(error_code=getattr(error, "code", ConnectorError.code), error=str(error))
        self._pipe.send(answer)

    def _report(self, connector: SourceConnector | SinkConnector, *, is_last: bool = False) -> None:
        destinations, circuits, now = None, 0, time.monotonic()
        if isinstance(connector, SourceConnector):
            circuits = connector.table.open_circuits_count
            if is_last or now >= self._destinations_due_at:
                destinations = connector.destinations()
                self._destinations_due_at = now + len(destinations) / _DESTINATIONS_PER_SECOND
        progress = Progress.of(connector.status)
        # The lease is that of the parent, which describes it.
        document = {name: value for name, value in connector.document().items() if name != "runs_in"}
        self._pipe.send(Report(document, progress, counts_of(connector.counters), destinations, circuits, self._lag))


class _ParentLease:
    """The lease that the parent has: it starts this process only with one."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    @property
    def ends_at(self) -> float:
        return math.inf if self._pipe.until is None else self._pipe.until

    def fence(self, connector: str) -> int | None:
        del connector
        return 0

    def may_finish(self, connector: str) -> bool:
        del connector
        if time.monotonic() >= self.ends_at:
            # The connector would count as stopped, also if the renewal is in the pipe; this way the parent decides.
            os._exit(LEASE_OVER)
        return True

    def runs_in(self, connector: str) -> str | None:
        del connector
        return None


async def _main(pipe: Pipe, task: Task) -> None:
    await _Child(pipe, task).run()


def main() -> int:
    """Run the connector that the parent names; return the exit status."""
    # The terminal sends Ctrl-C to the parent, which asks this process to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Pipe(socket.socket(fileno=int(sys.argv[1])))
    task = pipe.receive()
    if not isinstance(task, Task):
        raise TypeError("the first message is the task")
    pipe.until = task.until
    log_output.configure(LoggingSettings())
    try:
        with loaded_objects_frozen():
            asyncio.run(_main(pipe, task))
    except (HeadraceError, OSError) as error:
        pipe.send(Failed(str(error)))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
