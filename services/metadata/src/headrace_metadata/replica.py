"""A metadata replica that is alone: a quorum of one.

Clients of this module know ``propose`` and ``state``. How a command is ordered and made durable in between is
nobody else's business: a replica that asks its peers first will look the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self

from headrace_metadata import snapshot
from headrace_metadata.applied_state import AppliedState
from headrace_metadata.config import StateSettings
from headrace_metadata.errors import AppendFailedError, ReplicaStoppedError, SyncFailedError
from headrace_metadata.files import FolderLock
from headrace_metadata.journal_format import BODY_BYTES_MAX
from headrace_metadata.recovery import Recovered, recover
from headrace_metadata.state_machine import StateMachine
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, JournalEntry, Reply

_log = logging.getLogger(__name__)

# Proposals that wait for a sync share the next one, within these bounds: the event loop applies a group in
# one go.
_GROUP_PROPOSALS_MAX: Final = 256
_GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
# Whoever proposes beyond this many waits until an earlier proposal is answered.
_PROPOSALS_IN_FLIGHT_MAX: Final = 4096
# The entry around a command adds two integers and three tags to it.
_COMMAND_BYTES_MAX: Final = BODY_BYTES_MAX - 64

Clock = Callable[[], int]


def wall_clock_micros() -> int:
    """Return microseconds since the Unix epoch."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class _Proposal:
    command: bytes
    reply: asyncio.Future[Reply]


class Replica:
    """Orders commands, makes them durable and applies them.

    Attributes:
        state: What the committed commands have led to.
    """

    def __init__(
        self, folder: Path, lock: FolderLock, recovered: Recovered, settings: StateSettings, clock: Clock
    ) -> None:
        """Use ``Replica.open``."""
        self.state = AppliedState(recovered.machine)
        self._folder = folder
        self._lock = lock
        self._journal = recovered.journal
        self._settings = settings
        self._clock = clock
        # One thread each, so that the journal is written in order and a large snapshot does not hold it up.
        self._journal_thread = ThreadPoolExecutor(1, "metadata-journal")
        self._snapshot_thread = ThreadPoolExecutor(1, "metadata-snapshot")

        self._room = asyncio.Semaphore(_PROPOSALS_IN_FLIGHT_MAX)
        self._waiting: deque[_Proposal] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._failure: Exception | None = None

        self._snapshot_op = recovered.snapshot_op
        self._snapshot_started_op = recovered.snapshot_op
        self._bytes_since_snapshot = 0
        self._snapshot_task: asyncio.Task[None] | None = None
        self._committer = asyncio.create_task(self._commit_forever(), name="metadata-committer")

    @classmethod
    async def open(
        cls, folder: Path, settings: StateSettings | None = None, *, clock: Clock = wall_clock_micros
    ) -> Self:
        """Recover the state of a folder, which is made if need be, and start.

        Args:
            folder: Of this replica alone; the files are ``state.*``.
            settings: The defaults if none are given.
            clock: Returns microseconds since the Unix epoch. It may stand still or go backwards.

        Raises:
            FolderInUseError: Another process works there.
            StateDamagedError: Something durable is missing or altered.
            UnsupportedFormatError: The files were written by a newer release.
        """
        lock, recovered = await asyncio.to_thread(_acquire, folder)
        return cls(folder, lock, recovered, settings or StateSettings(), clock)

    async def propose(self, command: Command) -> Reply:
        """Have a command ordered, made durable and applied, and return what came of it.

        When this returns, every subscriber knows the change. When it is cancelled, the command may be applied
        all the same. A refusal is a reply with a status, not an exception.

        Raises:
            AppendFailedError: The command could not be written and was not applied; it may be proposed again.
            ReplicaStoppedError: The command may or may not have been taken; the next start will show.
        """
        encoded = command.SerializeToString()
        if command.WhichOneof("operation") is None or len(encoded) > _COMMAND_BYTES_MAX:
            return Reply(status=Status.INVALID_COMMAND)
        async with self._room:
            if self._closing or self._failure is not None:
                self._refuse_as_stopped()
            proposal = _Proposal(encoded, asyncio.get_running_loop().create_future())
            self._waiting.append(proposal)
            self._wake.set()
            return await proposal.reply

    async def wait_stopped(self) -> None:
        """Return when the replica was closed.

        Raises:
            ReplicaStoppedError: It stopped at a failure. The process should end, and start again.
        """
        await asyncio.wait([self._committer])
        if self._failure is not None:
            self._refuse_as_stopped()

    async def close(self) -> None:
        """Commit what was proposed, take no more, and release the folder."""
        if self._closing:
            await asyncio.wait([self._committer])
            return
        self._closing = True
        self._wake.set()
        await asyncio.wait([self._committer])
        if self._snapshot_task is not None:
            await asyncio.wait([self._snapshot_task])
        await asyncio.to_thread(self._release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _commit_forever(self) -> None:
        while True:
            while self._waiting:
                group = self._take_group()
                try:
                    await self._commit(group)
                except Exception as error:  # noqa: BLE001  (whatever it is, it ends this replica)
                    _log.exception("the metadata replica stops: nothing is committed any more")
                    self._stop(error, group)
            if self._closing or self._failure is not None:
                return
            self._wake.clear()
            await self._wake.wait()

    def _take_group(self) -> list[_Proposal]:
        group = [self._waiting.popleft()]
        size_bytes = len(group[0].command)
        while self._waiting and len(group) < _GROUP_PROPOSALS_MAX:
            size_bytes += len(self._waiting[0].command)
            if size_bytes > _GROUP_BYTES_MAX:
                break
            group.append(self._waiting.popleft())
        return group

    async def _commit(self, group: list[_Proposal]) -> None:
        """Make the proposals durable with one sync, then apply and answer them in order."""
        entries = self._order(group)
        try:
            await self._on_journal_thread(lambda: self._journal.append(entries, durable=self._settings.enforce_fsync))
        except AppendFailedError as error:
            _log.error("%s: %d commands were refused", error, len(group))
            for proposal in group:
                _answer(proposal, AppendFailedError(str(error)))
            return
        if self._failure is not None:
            # The journal failed at something else meanwhile: what it says about these entries is worth
            # nothing.
            raise self._failure
        for proposal, entry in zip(group, entries, strict=True):
            # Parsed anew, as after a restart: nobody else can have changed it since it was proposed.
            _answer(
                proposal,
                self.state.apply(entry.op, entry.timestamp_micros, Command.FromString(entry.command)),
            )
            self._bytes_since_snapshot += len(entry.command)
        self._snapshot_if_due()

    def _order(self, group: list[_Proposal]) -> list[JournalEntry]:
        now_micros = self._clock()
        entries = []
        op, timestamp_micros = self.state.op, self.state.timestamp_micros
        for proposal in group:
            op, timestamp_micros = op + 1, max(timestamp_micros + 1, now_micros)
            entries.append(JournalEntry(op=op, timestamp_micros=timestamp_micros, command=proposal.command))
        return entries

    def _snapshot_if_due(self) -> None:
        if self._snapshot_task is not None and not self._snapshot_task.done():
            return
        commands = self.state.op - self._snapshot_started_op
        if (
            commands < self._settings.snapshot_commands
            and self._bytes_since_snapshot < self._settings.snapshot_journal_size.bytes
        ):
            return
        # Also when it fails: the next try is due after as many commands again.
        self._snapshot_started_op = self.state.op
        self._bytes_since_snapshot = 0
        self._snapshot_task = asyncio.create_task(
            self._take_snapshot(self.state.fork_machine()), name="metadata-snapshot"
        )

    async def _take_snapshot(self, machine: StateMachine) -> None:
        loop = asyncio.get_running_loop()
        try:
            # Never a snapshot of what the journal may still lose.
            await self._on_journal_thread(self._journal.sync)
            await loop.run_in_executor(self._snapshot_thread, lambda: snapshot.store(self._folder, machine.snapshot()))
            previous_op, self._snapshot_op = self._snapshot_op, machine.op
            await self._on_journal_thread(lambda: self._journal.trim(previous_op))
        except SyncFailedError as error:
            _log.exception("the metadata replica stops: nothing is committed any more")
            self._stop(error, [])
        except Exception:  # noqa: BLE001  (nothing depends on a snapshot)
            _log.exception("no snapshot of the metadata could be taken; the journal grows on")

    async def _on_journal_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._journal_thread, work)

    def _stop(self, failure: Exception, group: list[_Proposal]) -> None:
        self._failure = failure
        for proposal in (*group, *self._waiting):
            stopped = ReplicaStoppedError(f"the metadata replica stopped: {failure}")
            stopped.__cause__ = failure
            _answer(proposal, stopped)
        self._waiting.clear()
        self._wake.set()

    def _refuse_as_stopped(self) -> NoReturn:
        reason = "was closed" if self._failure is None else f"stopped: {self._failure}"
        raise ReplicaStoppedError(f"the metadata replica {reason}") from self._failure

    def _release(self) -> None:
        self._journal_thread.shutdown()
        self._snapshot_thread.shutdown()
        self._journal.close()
        self._lock.close()


def _answer(proposal: _Proposal, answer: Reply | Exception) -> None:
    if proposal.reply.done():
        # Whoever proposed it was cancelled.
        return
    if isinstance(answer, Reply):
        proposal.reply.set_result(answer)
    else:
        proposal.reply.set_exception(answer)


def _acquire(folder: Path) -> tuple[FolderLock, Recovered]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        return lock, recover(folder)
    except BaseException:
        lock.close()
        raise
