"""A metadata replica: the state machine, driven by the native replica that orders commands and makes them durable.

Clients of this module use ``propose``, ``synchronise`` and ``state``. The native side commits commands: by a sync of
the journal if the replica is alone, otherwise also by a round trip to a majority.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Self, TypeVar, assert_never

from google.protobuf.message import DecodeError

from headrace_metadata import releases
from headrace_metadata.applied_state import AppliedState
from headrace_metadata.errors import (
    AppendFailedError,
    NotPrimaryError,
    OutcomeUnknownError,
    ReplicaBusyError,
    ReplicaStoppedError,
    RequestReusedError,
    SessionEndedError,
    StaleRequestError,
    UnsupportedCommandError,
)
from headrace_metadata.native import NativeReplica, ReplicaEvent, SessionQuestion
from headrace_metadata.state_machine import StateMachine, UnknownCommandError
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, Reply, StateSnapshot

Outcome = TypeVar("Outcome")

_log = logging.getLogger(__name__)

# Beyond this number, proposals wait until an earlier one is answered.
_PROPOSALS_IN_FLIGHT_MAX: Final = 4096
_RETRY_SECONDS: Final = 0.01
_STOP_TIMEOUT_SECONDS: Final = 10.0
_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True)
class RequestId:
    """The place of a command in a session.

    Attributes:
        client: 128-bit id of the session's client, never reused; not 0.
        session: Session number from opening the session.
        number: Request number, above that of every earlier request, and unchanged when the request is sent again.
    """

    client: int
    session: int
    number: int


class Replica:
    """Proposes commands, applies committed ones, and answers.

    All methods must be called on the thread of the event loop.

    Attributes:
        state: State after the committed commands.
    """

    def __init__(self, native: NativeReplica) -> None:
        """Use ``Replica.open`` instead."""
        self.state = AppliedState(StateMachine())
        self._native = native
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[bytes, int, asyncio.Future[Reply]]] = []
        self._proposals: dict[int, asyncio.Future[Reply]] = {}
        self._asked: list[tuple[SessionQuestion, asyncio.Future[tuple[int, bytes]]]] = []
        self._requests: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._reads: dict[int, asyncio.Future[None]] = {}
        self._room = asyncio.Semaphore(_PROPOSALS_IN_FLIGHT_MAX)
        self._checkpoints: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._closing = False
        self._failure: Exception | None = None
        self._role = "recovering"
        self._on_role: list[Callable[[str], None]] = []
        self._on_applied: list[Callable[[int, float], None]] = []

    @classmethod
    async def open(cls, native: NativeReplica) -> Self:
        """Recover the native replica's data directory, and start.

        Raises:
            Exception: Start errors of the native replica; the message names the cause and the remedy.
        """
        replica = cls(native)
        starting = asyncio.ensure_future(asyncio.to_thread(native.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread cannot be interrupted, and a native replica that nothing stops keeps its data directory.
            await asyncio.wait({starting})
            if starting.exception() is None:
                await asyncio.to_thread(native.stop, _STOP_TIMEOUT_SECONDS)
            raise
        replica._loop.add_reader(native.fileno(), replica._take)
        return replica

    @property
    def role(self) -> str:
        """``primary``, ``backup``, ``view_change`` or ``recovering``."""
        return self._role

    def on_applied(self, applied: Callable[[int, float], None]) -> None:
        """Register a callback for the number of commands applied together, and the seconds that took."""
        self._on_applied.append(applied)

    def on_role(self, changed: Callable[[str], None]) -> None:
        """Register a callback for every change of the role, and call it with the current one."""
        self._on_role.append(changed)
        changed(self._role)

    async def propose(self, command: Command) -> Reply:
        """Order a command, make it durable, apply it, and return the result.

        When this returns, every subscriber of this replica has the change. If it is cancelled, the command may still be
        applied. A refusal is a reply with a status, not an exception; a command that some replica may not know yet is
        refused with `FEATURE_UNAVAILABLE`.

        Raises:
            NotPrimaryError: Another replica is the primary; the command was not taken.
            ReplicaBusyError: Too many commands are in flight; the command was not taken.
            AppendFailedError: The command could not be written and was not taken.
            OutcomeUnknownError: The command may or may not be applied.
            ReplicaStoppedError: The command may or may not have been taken.
        """
        since = releases.since(command)
        if since is None:
            return _refuse_unknown(command)
        encoded = command.SerializeToString()
        async with self._room:
            self._check_running()
            proposal: asyncio.Future[Reply] = self._loop.create_future()
            if not self._waiting:
                # Further proposals of this turn of the event loop are batched with it, and share one write.
                self._loop.call_soon(self._hand_over)
            self._waiting.append((encoded, since, proposal))
            return await proposal

    async def request(self, request: RequestId, command: Command) -> Reply:
        """Propose a command at most once: the same request, here or at another replica, has the same reply.

        Raises:
            MetadataError: The same errors as `propose`. After `OutcomeUnknownError` the request can be sent again.
            SessionEndedError: The session does not exist (any more).
            StaleRequestError: A later request was applied before.
            RequestReusedError: The number was used for another command.
        """
        since = releases.since(command)
        if since is None:
            return _refuse_unknown(command)
        encoded = command.SerializeToString(deterministic=True)
        _, reply = await self._ask((request.client, request.session, request.number, "propose", since, encoded))
        return Reply.FromString(reply)

    async def open_session(self, client: int) -> int:
        """Open a session for a client without one, and return its number.

        Raises:
            MetadataError: The same errors as `propose`. An attempt with an unknown outcome may leave an unused session,
                which
                is evicted eventually.
        """
        session, _ = await self._ask((client, 0, 0, "open", 0, b""))
        return session

    async def close_session(self, request: RequestId) -> None:
        """End a session.

        Raises:
            MetadataError: The same errors as `request`.
        """
        await self._ask((request.client, request.session, request.number, "close", 0, b""))

    async def _ask(self, question: SessionQuestion) -> tuple[int, bytes]:
        async with self._room:
            self._check_running()
            answer: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
            if not self._asked:
                self._loop.call_soon(self._hand_over_asked)
            self._asked.append((question, answer))
            return await answer

    async def synchronise(self) -> None:
        """Wait until ``state`` contains every command that any replica acknowledged before this call.

        Raises:
            NotPrimaryError: Another replica is the primary.
            ReplicaBusyError: Too many requests are in flight.
            OutcomeUnknownError: A view change is in progress; ask again.
            ReplicaStoppedError: This replica does not run.
        """
        self._check_running()
        try:
            ticket = self._native.read_index()
        except Exception as error:
            raise _gone(error) from error
        read: asyncio.Future[None] = self._loop.create_future()
        self._reads[ticket] = read
        await read

    async def wait_recovered(self) -> None:
        """Wait until a single replica has applied everything in its data directory.

        Raises:
            ReplicaStoppedError: The replica stopped before.
        """
        while True:
            try:
                await self.synchronise()
            except (NotPrimaryError, ReplicaBusyError, OutcomeUnknownError):
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def log_time_micros(self) -> int:
        """Return the approximate timestamp of a command that would be proposed now."""
        ahead_ns: int = json.loads(self._native.status_json())["clock"]["log_ahead_ns"]
        return (time.time_ns() + ahead_ns) // 1000

    def status(self) -> dict[str, Any]:
        """Return the status of the native replica, with counts of the applied state; may be called from any thread."""
        status: dict[str, Any] = json.loads(self._native.status_json())
        return status | {"state": self.state.metrics()}

    async def wait_stopped(self) -> None:
        """Wait until the replica was closed.

        Raises:
            ReplicaStoppedError: The replica stopped at a failure. The process should end, and start again.
        """
        await self._stopped.wait()
        if self._failure is not None:
            self._refuse_as_stopped()

    async def close(self) -> None:
        """Finish pending proposals as far as possible, refuse new ones, and release the data directory."""
        if self._closing:
            await self._stopped.wait()
            return
        self._closing = True
        # Proposals of this turn of the event loop are passed to the native replica in the next.
        await asyncio.sleep(0)
        waiting: list[asyncio.Future[Any]] = [*self._proposals.values(), *self._requests.values()]
        if self._failure is None and waiting:
            await asyncio.wait(waiting, timeout=_STOP_TIMEOUT_SECONDS)
        if self._failure is None and self._role == "primary":
            self._native.abdicate()
        self._loop.remove_reader(self._native.fileno())
        if self._checkpoints:
            await asyncio.wait(self._checkpoints)
        in_time = await asyncio.to_thread(self._native.stop, _STOP_TIMEOUT_SECONDS)
        if not in_time:
            _log.warning("the metadata replica did not end within %g s", _STOP_TIMEOUT_SECONDS)
        self._fail_all(ReplicaStoppedError("the metadata replica was closed"))
        self._stopped.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _take(self) -> None:
        for event in self._native.take():
            if self._failure is not None:
                # Events after a failure must not be applied to a state that differs from the committed one.
                return
            try:
                self._handle(event)
            except Exception as error:  # noqa: BLE001  (whatever it is, it ends this replica)
                _log.exception("the metadata replica stops: nothing is applied any more")
                self._stop(error)

    def _handle(self, event: ReplicaEvent) -> None:
        match event:
            case ("apply", op, timestamp_nanos, commands):
                self._apply(op, timestamp_nanos, commands)
            case ("answered", ticket, session, reply):
                _resolve(self._requests.pop(ticket, None), (session, reply))
            case ("read", ticket, _):
                _resolve(self._reads.pop(ticket, None), None)
            case ("refused", ticket, reason, primary):
                self._refused(ticket, reason, primary)
            case ("checkpoint", op):
                self._checkpoint(op)
            case ("restore", op, encoded):
                self.state.restore(StateMachine.restore(StateSnapshot.FromString(encoded)))
                self._native.restored(op)
            case ("role", role, view, primary):
                self._changed_role(role, view, primary)
            case ("log", level, message):
                _log.log(_LEVELS[level], "%s", message)
            case ("stopped", reason):
                self._stop(RuntimeError(reason))
            case unknown:
                assert_never(unknown)

    def _apply(self, op: int, timestamp_nanos: int, commands: list[tuple[int, bytes]]) -> None:
        replies: list[bytes] = []
        began = time.perf_counter()
        for ticket, encoded in commands:
            try:
                reply = self.state.apply_committed(timestamp_nanos, Command.FromString(encoded))
            except (DecodeError, UnknownCommandError) as error:
                raise UnsupportedCommandError(op) from error
            replies.append(reply.SerializeToString())
            if ticket:
                _resolve(self._proposals.pop(ticket, None), reply)
        self._native.applied(op, replies)
        for applied in self._on_applied:
            applied(len(commands), time.perf_counter() - began)

    def _refused(self, ticket: int, reason: str, primary: int) -> None:
        proposal = self._proposals.pop(ticket, None)
        if reason in _REFUSALS:
            refused = Reply(status=_REFUSALS[reason])
            _resolve(proposal, refused)
            _resolve(self._requests.pop(ticket, None), (0, refused.SerializeToString()))
            return
        refusal = _refusal(reason, primary)
        _fail(proposal, refusal)
        _fail(self._requests.pop(ticket, None), refusal)
        _fail(self._reads.pop(ticket, None), refusal)

    def _checkpoint(self, op: int) -> None:
        machine = self.state.fork_machine()

        def store() -> None:
            self._native.checkpoint(op, machine.snapshot().SerializeToString(deterministic=True))

        task = self._loop.create_task(asyncio.to_thread(store), name="metadata-checkpoint")
        self._checkpoints.add(task)
        task.add_done_callback(self._checkpointed)

    def _checkpointed(self, task: asyncio.Task[None]) -> None:
        self._checkpoints.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception) and not self._closing:
            _log.error("metadata checkpoint failed", exc_info=error)
            self._stop(error)

    def _changed_role(self, role: str, view: int, primary: int) -> None:
        self._role = role
        _log.info("metadata replica: %s in view %d, primary %s", role, view, primary if primary >= 0 else "unknown")
        for changed in self._on_role:
            changed(role)

    def _stop(self, failure: Exception) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        stopped = ReplicaStoppedError(f"the metadata replica stopped: {failure}")
        stopped.__cause__ = failure
        self._fail_all(stopped)
        self._stopped.set()

    def _fail_all(self, error: Exception) -> None:
        for waiting in (self._proposals, self._requests, self._reads):
            for future in waiting.values():
                _fail(future, error)
            waiting.clear()

    def _hand_over(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            tickets = self._native.propose_many(
                [encoded for encoded, _, _ in waiting], [since for _, since, _ in waiting]
            )
        except Exception as error:  # noqa: BLE001  (see `_gone`)
            for _, _, proposal in waiting:
                _fail(proposal, _gone(error))
            return
        self._proposals.update(zip(tickets, (proposal for _, _, proposal in waiting), strict=True))

    def _hand_over_asked(self) -> None:
        asked, self._asked = self._asked, []
        try:
            tickets = self._native.request_many([question for question, _ in asked])
        except Exception as error:  # noqa: BLE001  (see `_gone`)
            for _, answer in asked:
                _fail(answer, _gone(error))
            return
        self._requests.update(zip(tickets, (answer for _, answer in asked), strict=True))

    def _check_running(self) -> None:
        if self._closing or self._failure is not None:
            self._refuse_as_stopped()

    def _refuse_as_stopped(self) -> NoReturn:
        reason = "was closed" if self._failure is None else f"stopped: {self._failure}"
        raise ReplicaStoppedError(f"the metadata replica {reason}") from self._failure


_REFUSALS: Final = {"oversize": Status.INVALID_COMMAND, "release": Status.FEATURE_UNAVAILABLE}
"""Statuses of permanent refusals, by the reason of the native replica."""


def _refuse_unknown(command: Command) -> Reply:
    is_later = releases.is_of_a_later_release(command)
    return Reply(status=Status.FEATURE_UNAVAILABLE if is_later else Status.INVALID_COMMAND)


def _refusal(reason: str, primary: int) -> Exception:
    match reason:
        case "not_primary":
            return NotPrimaryError(primary if primary >= 0 else None)
        case "busy":
            return ReplicaBusyError("too many commands are in flight")
        case "storage":
            return AppendFailedError(
                "the disk of this metadata replica is full: the command was not accepted. Free some space and propose "
                "it again"
            )
        case "session_ended":
            return SessionEndedError("the session does not exist: it was closed, or evicted in favour of others")
        case "session_fenced":
            return SessionEndedError("the client has opened a newer session")
        case "stale":
            return StaleRequestError("a request with a higher number was applied before")
        case "reused":
            return RequestReusedError("the number belongs to another command")
        case _:
            return OutcomeUnknownError("another primary was elected: the outcome of the command is unknown")


def _gone(error: Exception) -> ReplicaStoppedError:
    """The native replica has stopped, and the event with the cause is still on its way."""
    stopped = ReplicaStoppedError(f"the metadata replica stopped: {error}")
    stopped.__cause__ = error
    return stopped


def _resolve(waiting: asyncio.Future[Outcome] | None, outcome: Outcome) -> None:
    # The future is done already if its caller was cancelled.
    if waiting is not None and not waiting.done():
        waiting.set_result(outcome)


def _fail(waiting: asyncio.Future[Any] | None, error: Exception) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(error)
