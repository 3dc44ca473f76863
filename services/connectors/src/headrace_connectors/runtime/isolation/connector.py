"""A connector whose work is done by a process of its own, which is started again when it ends unexpectedly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from headrace_connectors.contract import ConnectorError, Lag
from headrace_connectors.counters import Counters, SinkCounters
from headrace_connectors.pipeline_file.models import ServerSettings
from headrace_connectors.pipeline_file.pipeline import SinkSpec, SourceSpec
from headrace_connectors.runtime.backoff import Backoff
from headrace_connectors.runtime.connector import Connector, Unsupported
from headrace_connectors.runtime.isolation.child import LEASE_OVER, REPORT_SECONDS
from headrace_connectors.runtime.isolation.environment import environment_of
from headrace_connectors.runtime.isolation.messages import (
    BYTES_MAX,
    LENGTH,
    Abandoned,
    Answer,
    Ask,
    Failed,
    Report,
    Save,
    Task,
    ToChild,
    Until,
    at_parent,
    to_child,
)
from headrace_connectors.runtime.status import State
from headrace_connectors.state.store import States

BLOCKED_SECONDS: Final = 5.0
"""Time without a report after which the connector is shown as degraded: a report needs its event loop."""


class ProcessEnded(ConnectorError):
    """The process of a connector has ended, and was not asked to."""

    code = "process_ended"


class Blocked(ConnectorError):
    """The event loop in the process of a connector does not turn."""

    code = "blocked"


class NotRunning(ConnectorError):
    """The call needs the process of the connector."""

    code = "not_running"


@dataclass(slots=True)
class _Child:
    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: deque[asyncio.Future[Abandoned]] = field(default_factory=deque)
    """Callers that wait for an answer, in the order in which it answers them."""
    last: Report | None = None
    failure: str | None = None
    """Reason why it could not begin."""

    def send(self, message: ToChild) -> None:
        self.writer.write(to_child(message))

    def answered(self, answer: Abandoned) -> None:
        asked = self.asked.popleft()
        # A caller that has gone has its answer, too.
        if not asked.done():
            asked.set_result(answer)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class ProcessConnector(Connector):
    """A connector in a process of its own.

    Args:
        spec: Its description.
        server: The server, to which the process connects itself.
        states: Where states of sources are kept; this process saves them.
        kind: Kind of the connector.
        blocked_seconds: Time without a report after which it is degraded.
    """

    def __init__(
        self,
        spec: SourceSpec | SinkSpec,
        server: ServerSettings,
        states: States,
        *,
        blocked_seconds: float = BLOCKED_SECONDS,
    ) -> None:
        plugged = spec.source if isinstance(spec, SourceSpec) else spec.sink
        super().__init__(spec.key, plugged.name, spec.settings)
        self.kind = "source" if isinstance(spec, SourceSpec) else "sink"
        self.spec = spec
        self.counters = Counters() if self.kind == "source" else SinkCounters()
        self._open_circuits_count = 0
        self._lag: Lag | None = None
        self.restarts_count = 0
        self._server = server
        self._states = states
        self._blocked_seconds = blocked_seconds
        self._stop = asyncio.Event()
        self._child: _Child | None = None
        self._destinations: list[dict[str, Any]] = []
        self._document: dict[str, Any] = {}

    @property
    def destinations_count(self) -> int:
        """Number of destinations in use, as of the last report."""
        return len(self._destinations)

    @property
    def open_circuits_count(self) -> int:
        """Number of destinations that are refused because they keep failing, as of the last report."""
        return self._open_circuits_count

    @property
    def invalid_count(self) -> int:
        """Number of records that could not be converted."""
        return 0 if self.counters is None else self.counters.invalid

    async def abandon(self) -> str | None:
        """Give up the pending batch; return the position that was given up to.

        Raises:
            ConnectorError: The connector keeps none, or its process does not run.
        """
        if self.kind == "sink":
            return await super().abandon()
        child = self._child
        if child is None:
            raise NotRunning(f"{self.key} does not run")
        answered = asyncio.get_running_loop().create_future()
        child.asked.append(answered)
        child.send(Ask())
        answer: Abandoned = await answered
        if answer.error_code is not None:
            raise _failed(answer.error, answer.error_code)
        return answer.position

    def destinations(self) -> list[dict[str, Any]]:
        """Describe the destinations of a source, as of its last report."""
        if self.kind == "sink":
            raise Unsupported(f"{self.key} is a sink: only sources have destinations")
        return self._destinations

    async def lag(self) -> Lag | None:
        """Return the distance from the end of what it reads, as of the last report; None: not known."""
        return self._lag if self.is_running else None

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API."""
        return {
            **self._document,
            **{name: value for name, value in super().document().items() if name != "transforms"},
            "process_id": None if self._child is None else self._child.process.pid,
            "restarts_count": self.restarts_count,
        }

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self.is_running:
            self._stop.clear()
        super().start()

    def _halt(self) -> bool:
        self._stop.set()
        if self._child is not None:
            self._child.signal(signal.SIGTERM)
        return True

    async def _serve(self) -> None:
        backoff = Backoff(self.spec.settings.delivery, self._stop, random.Random())  # noqa: S311 - pauses
        while not self._stop.is_set():
            batches_count = self.status.batches_count
            ended = await self._one_process()
            if ended is None or not self._may_go_on():
                return
            self.restarts_count += 1
            self.status.failed(ended)
            self.status.become(State.DEGRADED, str(ended))
            if self.status.batches_count != batches_count:
                backoff.reset()
            await backoff.pause()

    async def _one_process(self) -> ProcessEnded | None:
        """Run a process until its end; return the reason for starting another one.

        Raises:
            ConnectorError: The connector has ended with an error.
        """
        state = await self._states.load(self.key, self.plugin) if self.kind == "source" else None
        child = self._child = await _started(environment_of(os.environ, self.spec.settings.environment))
        base = (self.status.batches_count, self.status.records_count)
        try:
            child.send(Task(self.spec, self._server, state, self._until()))
            if self._stop.is_set():
                child.signal(signal.SIGTERM)
            working = [
                asyncio.create_task(self._receiving(child, base), name=f"{self.key}-reports"),
                asyncio.create_task(self._watching(child), name=f"{self.key}-watch"),
            ]
            try:
                status = await child.process.wait()
                # The last report may be in the socket still.
                await asyncio.wait(working[:1])
            finally:
                for task in working:
                    task.cancel()
                await asyncio.wait(working)
            working[0].result()
        finally:
            self._child = None
            child.signal(signal.SIGKILL)
            child.writer.close()
            while child.asked:
                child.answered(Abandoned(None, NotRunning.code, f"the process of {self.key} has ended"))
            await child.process.wait()
        progress = None if child.last is None else child.last.progress
        if status == 0 and progress is not None and progress.state is State.ERROR:
            raise _failed(progress.last_error or "it has failed", progress.error_code)
        if self._stop.is_set() or (status == 0 and progress is not None):
            return None
        if child.failure is not None:
            return ProcessEnded(child.failure)
        if status == LEASE_OVER:
            return ProcessEnded("the lease was not renewed in time, and the process has ended")
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return ProcessEnded(f"the process of {self.key} has ended {how}; it is started again")

    def _until(self) -> float | None:
        return None if self.lease is None else self.lease.ends_at

    async def _receiving(self, child: _Child, base: tuple[int, int]) -> None:
        while True:
            try:
                (length,) = LENGTH.unpack(await child.reader.readexactly(LENGTH.size))
                if length > BYTES_MAX:
                    raise msgspec.DecodeError(f"it has {length} bytes")
                message = at_parent(await child.reader.readexactly(length))
            except (asyncio.IncompleteReadError, OSError):
                return
            except msgspec.MsgspecError as error:
                child.failure = f"the process of {self.key} has sent what is no message, and is ended: {error}"
                child.signal(signal.SIGKILL)
                return
            match message:
                case Report():
                    self._show(child, message, base)
                case Failed(text):
                    child.failure = text
                case Save(state):
                    child.send(await self._saved(state))
                case Abandoned() if child.asked:
                    child.answered(message)
                case _:
                    pass

    async def _saved(self, state: bytes) -> Answer:
        try:
            await self._states.save(self.key, self.plugin, state)
        except (ConnectorError, OSError) as error:
            return Answer(error)
        return Answer(None)

    def _show(self, child: _Child, report: Report, base: tuple[int, int]) -> None:
        child.last = report
        self.counters = report.counts.counters()
        self._document = report.document
        self._lag = report.lag
        self._open_circuits_count = report.open_circuits_count
        if report.destinations is not None:
            self._destinations = report.destinations
        theirs, ours = report.progress, self.status
        if theirs.last_error_at is not None:
            ours.error_code, ours.last_error, ours.last_error_at = (
                theirs.error_code,
                theirs.last_error,
                theirs.last_error_at,
            )
        if theirs.last_error_at is not None or theirs.batches_count:
            # Until then, the reason why the process before has ended stays visible.
            ours.consecutive_failures = theirs.consecutive_failures
        errors = {one.first_at: one for one in (*ours.errors, *theirs.errors)}
        ours.errors.clear()
        ours.errors.extend(errors[at] for at in sorted(errors))
        ours.batches_count, ours.records_count = base[0] + theirs.batches_count, base[1] + theirs.records_count
        ours.last_commit_at = theirs.last_commit_at or ours.last_commit_at
        ours.last_abandon_at = theirs.last_abandon_at or ours.last_abandon_at
        ours.last_abandoned = theirs.last_abandoned or ours.last_abandoned
        if theirs.state in (State.STARTING, State.RUNNING, State.DEGRADED) and not self._stop.is_set():
            ours.become(theirs.state, theirs.reason)

    async def _watching(self, child: _Child) -> None:
        """Pass the lease on, and see whether reports come."""
        loop, last, seen_at = asyncio.get_running_loop(), None, asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(REPORT_SECONDS / 2)
            until = self._until()
            if until is not None and self.lease is not None and self.lease.may_finish(self.key):
                child.send(Until(until))
            if child.last is not last:
                last, seen_at = child.last, loop.time()
            elif loop.time() - seen_at > self._blocked_seconds and self.status.state is State.RUNNING:
                blocked = Blocked(
                    f"the process of {self.key} has not reported for {self._blocked_seconds:g} s: the plugin blocks "
                    "its event loop, or the machine is overloaded"
                )
                self.status.failed(blocked)
                self.status.become(State.DEGRADED, str(blocked))


def _failed(text: str, code: str | None) -> ConnectorError:
    error = ConnectorError(text)
    error.code = code or error.code  # type: ignore[misc] # of this error alone
    return error


async def _started(environment: Mapping[str, str]) -> _Child:
    ours, theirs = socket.socketpair()
    with theirs:
        # A session of its own: a terminal's Ctrl-C goes to this process alone, which asks the other one to stop.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "headrace_connectors.runtime.isolation.child",
            str(theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    return _Child(process, reader, writer)
