"""Delivery exactly once: a batch is staged at its partitions, and committed with a number that is kept with the state.

The order is: stage, save the batch with its state as pending, commit. A commit can be repeated, and it can be found out
whether it has happened, so that after a crash at any step the batch counts with its state, or not at all.

A transaction belongs to one stream. A batch for several streams counts when it is committed in one of them, the home,
where every batch is committed first; the commits in the others follow, and are made up for after a crash.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

from headrace.sdk.errors import (
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    HeadraceError,
    NotFound,
    OutcomeUnknown,
)
from headrace.sdk.stages import Stage
from headrace_connectors.contract import Batch, ConnectorError, Unavailable
from headrace_connectors.failures import Undelivered, translated
from headrace_connectors.storing.delivery import Delivery
from headrace_connectors.storing.progress import Pending, Progress, Stored
from headrace_connectors.storing.steps import InDoubt, SaveState
from headrace_proto.errors import Status
from headrace_proto.limits import STAGES_PER_COMMAND_MAX

_log = logging.getLogger(__name__)
Value = TypeVar("Value")

_UNKNOWN: Final = (ConnectionFailed, DeadlineExceeded, OutcomeUnknown, ClientClosed)
_FENCED: Final = (
    "another runtime writes under the transaction {name} of stream {stream}: it has taken this source over, or a "
    "source of another pipeline has the same name. Run the source once, or set delivery.transaction to another name"
)
_STALE: Final = (
    "the state is not that of the last batch under the transaction {name} of stream {stream}: another runtime has gone "
    "on with this source, or the record of the transaction was deleted. Use the newest state, or remove the state and "
    "the transaction deliberately to start over"
)
_EXPIRED: Final = (
    "a batch is committed in stream {home}, and {count} messages of it that were staged for stream {stream} have "
    "expired before this runtime was started again: they are lost. Remove `pending` from the state file to go on, and "
    "set delivery.stage_lifetime higher"
)
_TOO_LARGE: Final = (
    "records that count together, as those of a snapshot, have more than {count} stages in stream {stream}, one for "
    "each batch and partition, and cannot be committed: set `batch_size` in the settings of the source so much higher "
    "that there are fewer, or give the topics fewer partitions"
)


class TooLarge(ConnectorError):
    """A batch has more stages than a commit may name."""

    code = "too_large"


class Fenced(ConnectorError):
    """Another runtime writes for this source."""

    code = "fenced"


class StaleState(ConnectorError):
    """Another runtime has gone on with the source."""

    code = "stale_state"


class StagingProducer(Protocol):
    """Producer of stages: `headrace.aio.DirectProducer`."""

    async def stage_groups(self, groups: Any, *, lifetime: timedelta | None = None) -> dict[Any, Any]:
        """Stage lists of `Outgoing` by stream and topic."""


class TransactionCalls(Protocol):
    """Calls about transactions: `headrace.aio.Client`."""

    async def commit_transaction(
        self, stream: str, transaction: str, query_id: str, batch_id: int, stages: Any, *, fence: bool = False
    ) -> Any:
        """Commit stages."""

    async def abort_transaction(self, stream: str, transaction: str, query_id: str, batch_id: int, stages: Any) -> Any:
        """Discard stages."""

    async def transaction(self, stream: str, name: str) -> Any:
        """Get the last commit."""


@dataclass(slots=True)
class Staged:
    """Messages of one batch, or of several."""

    stages: dict[str, list[Stage]] = field(default_factory=dict)
    """Stages by stream."""

    def add(self, other: Staged) -> None:
        """Append those of a later batch."""
        for stream, stages in other.stages.items():
            self.stages.setdefault(stream, []).extend(stages)

    def check_size(self) -> None:
        """Check that they can be committed together.

        Raises:
            TooLarge: There are too many stages.
        """
        for stream, stages in self.stages.items():
            if len(stages) > STAGES_PER_COMMAND_MAX:
                raise TooLarge(_TOO_LARGE.format(count=STAGES_PER_COMMAND_MAX, stream=stream))

    @property
    def messages_count(self) -> int:
        """Number of messages."""
        return sum(stage.messages_count for stages in self.stages.values() for stage in stages)


class ExactlyOnce:
    """Stages batches and commits them.

    Records of batches without a state are held, and committed together with those of the next batch with a state.

    Args:
        stored: State and progress of the run before.
        delivery: Routes, admits and encodes.
        producer: Stages.
        calls: Commits.
        save: Saves states and progress.
        name: Name of the transactions.
        lifetime: Time within which stages can be committed.
    """

    def __init__(
        self,
        stored: Stored,
        delivery: Delivery,
        producer: StagingProducer,
        calls: TransactionCalls,
        save: SaveState,
        *,
        name: str,
        lifetime: timedelta,
    ) -> None:
        self._state = stored.state
        self._delivery = delivery
        self._producer = producer
        self._calls = calls
        self._save = save
        self._name = name
        self._lifetime = lifetime
        if stored.delivery is not None:
            self._progress = Progress.decode(stored.delivery)
        else:
            self._progress = Progress.new(_identity(), _identity())
        # Identity of this run, which the progress has once it has taken over.
        self._writer_id = _identity()
        self._held = Staged()
        # True while records that were held are part of a batch that does not count yet.
        self._has_held = False
        # The batch whose commit has begun in this run.
        self._open: Pending | None = None
        # True if an attempt to commit it may have had its effect.
        self._is_in_doubt = False
        # True if the file says that a batch is pending which is known to be committed.
        self._is_behind = False

    @property
    def state(self) -> bytes | None:
        """State behind the last batch that counts."""
        return self._state

    # ---- batches

    async def send(self, batch: Batch) -> Staged:
        """Stage the records."""
        outgoing = await self._delivery.prepare(batch.records)
        if not outgoing:
            return Staged()
        results = await self._producer.stage_groups(outgoing, lifetime=self._lifetime)
        staged = Staged()
        for (stream, _), result in results.items():
            if not isinstance(result, HeadraceError):
                staged.add(Staged({stream: result}))
        try:
            self._delivery.check(outgoing, results)
        except ConnectorError:
            await self.discard(staged)
            raise
        return staged

    async def settle(self, batch: Batch, sent: Staged) -> int:
        """Commit the records with the state; those without a state are held."""
        if self._open is None:
            if batch.state is None:
                self._held.add(sent)
                self._held.check_size()
                return 0
            together, self._held = self._held, Staged()
            self._has_held = bool(together.stages)
            together.add(sent)
            together.check_size()
            if not together.stages:
                await self._settled(batch.state)
                return 0
            await self._begin(batch.state, together)
        pending = self._open
        if pending is None:
            raise AssertionError("a batch was begun")
        try:
            await self._commit(pending)
        except InDoubt:
            raise
        except Undelivered:
            self._open = None
            await self._abort(pending)
            raise
        self._open = None
        self._state = bytes(pending.state)
        self._progress.batch_id, self._progress.is_owner, self._progress.pending = pending.batch_id, True, None
        self._is_behind, self._has_held = True, False
        return self._delivery.stored(pending.messages_count)

    async def discard(self, sent: Staged) -> None:
        """Let the server remove stages before they expire."""
        batch_id = self._progress.batch_id + 1
        for stream, stages in sent.stages.items():
            # They expire by themselves.
            with suppress(HeadraceError):
                await self._calls.abort_transaction(stream, self._name, self._writer(stream), batch_id, stages)

    async def give_up_held(self) -> bool:
        """Drop the records that wait for a state, or were to count with one and do not."""
        held, self._held = self._held, Staged()
        has_held, self._has_held = self._has_held, False
        await self.discard(held)
        return has_held or bool(held.stages)

    async def rest(self) -> None:
        """Save that the last batch is committed, so that a start need not ask."""
        if self._is_behind:
            await self._settled(self._state)

    async def save_settled(self, state: bytes) -> None:
        """Save a state of a runtime that goes on without transactions, which keeps the identity of the writer."""
        await self._settled(state)

    async def _begin(self, state: bytes, staged: Staged) -> None:
        progress = self._progress
        pending = Pending.of(progress.batch_id + 1, state, staged.stages)
        if progress.home is None:
            progress.home = min(staged.stages)
        progress.pending = pending
        await self._save(Stored(self._state, progress.encode()).encode())
        self._open, self._is_in_doubt = pending, False

    async def _settled(self, state: bytes | None) -> None:
        pending, self._progress.pending = self._progress.pending, None
        try:
            await self._save(Stored(state, self._progress.encode()).encode())
        except BaseException:
            # A recovery that is repeated would take the state of before for that of the last batch that counts.
            self._progress.pending = pending
            raise
        self._state = state
        self._is_behind = False

    async def _commit(self, pending: Pending) -> None:
        """Commit a batch in its home, then in the other streams.

        Raises:
            InDoubt: The outcome is not known, or the batch counts and is not complete.
            Undelivered: Nothing is committed.
            Fenced: Another runtime writes.
        """
        home = self._home
        try:
            await self._call(home, pending.batch_id, pending.stages_of(home))
        except _UNKNOWN as error:
            self._is_in_doubt = True
            raise InDoubt(f"batch {pending.batch_id} may be committed: {error}") from error
        except HeadraceError as error:
            if error.code == Status.TRANSACTION_FENCED:
                raise Fenced(_FENCED.format(name=self._name, stream=home)) from error
            if self._is_in_doubt and not _is_about_stages(error):
                # A right that is gone since says nothing about the attempt before.
                raise InDoubt(f"batch {pending.batch_id} may be committed: {translated(error, home)}") from error
            raise translated(error, f"batch {pending.batch_id} is not committed") from error
        await self._complete(pending)

    async def _complete(self, pending: Pending) -> None:
        """Commit a batch in the streams beside its home."""
        for stream in pending.stages:
            if stream == self._home:
                continue
            try:
                await self._call(stream, pending.batch_id, pending.stages_of(stream))
            except NotFound as error:
                # Deleted since: the messages would be gone with it.
                _log.warning("stream %s: messages of batch %d are dropped: %s", stream, pending.batch_id, error)
            except HeadraceError as error:
                if error.code == Status.TRANSACTION_FENCED:
                    raise Fenced(_FENCED.format(name=self._name, stream=stream)) from error
                if error.code == Status.STAGE_EXPIRED:
                    count = sum(stage.messages_count for stage in pending.stages_of(stream))
                    raise ConnectorError(_EXPIRED.format(home=self._home, stream=stream, count=count)) from error
                raise InDoubt(f"batch {pending.batch_id} is not committed in stream {stream} yet: {error}") from error

    async def _call(self, stream: str, batch_id: int, stages: Iterable[Stage]) -> bool:
        """Commit; return whether it was committed before."""
        writer = self._writer(stream)
        result = await self._calls.commit_transaction(stream, self._name, writer, batch_id, list(stages))
        return bool(result.already_committed)

    async def _abort(self, pending: Pending) -> None:
        await self.discard(Staged({stream: pending.stages_of(stream) for stream in pending.stages}))

    @property
    def _home(self) -> str:
        if self._progress.home is None:
            raise AssertionError("a batch has a home")
        return self._progress.home

    def _writer(self, stream: str) -> str:
        # Beside the home, a batch may be completed by the next run: it is the same writer there.
        return self._progress.writer_id if stream == self._progress.home else self._progress.source_id

    # ---- the start

    async def recover(self) -> bytes | None:
        """Find out whether the pending batch is committed, complete it, and end the writing of every earlier run."""
        progress = self._progress
        if progress.home is not None:
            if not progress.is_owner and progress.pending is not None:
                await self._recover_first(progress.pending)
            if progress.is_owner:
                await self._take_over()
        self._is_behind = False
        return self._state

    async def _recover_first(self, pending: Pending) -> None:
        """Commit the first batch of all: before it nothing says to whom the name belongs."""
        # An earlier run may have committed it.
        self._is_in_doubt = True
        try:
            await self._commit(pending)
        except Undelivered:
            await self._abort(pending)
            self._progress.home = None
            await self._settled(self._state)
        else:
            self._progress.batch_id, self._progress.is_owner = pending.batch_id, True
            await self._settled(bytes(pending.state))

    async def _take_over(self) -> None:
        progress, home, name = self._progress, self._home, self._name
        before, pending, writer = progress.writer_id, progress.pending, self._writer_id
        if before == writer:
            # Taken over already: the batch is not complete yet.
            await self._end_recovery()
            return
        last = await self._asked(self._calls.transaction(home, name))
        # From here on no earlier run can commit, and what they have committed does not change any more.
        await self._asked(self._calls.commit_transaction(home, name, writer, 0, (), fence=True))
        if pending is not None and not pending.is_committed:
            pending.is_committed = await self._was_committed(before, pending.batch_id)
            if not pending.is_committed and not await self._was_committed(before, 0):
                raise StaleState(_STALE.format(name=name, stream=home))
        newest = pending.batch_id if pending is not None and pending.is_committed else progress.batch_id
        if await self._was_committed(before, newest + 1):
            raise StaleState(_STALE.format(name=name, stream=home))
        # Its own name is there if the answer of an earlier attempt was lost.
        is_other = last is not None and last.query_id not in (before, writer)
        if is_other and (last.batch_id > 0 or await self._was_committed(last.query_id, 1)):
            raise StaleState(_STALE.format(name=name, stream=home))
        progress.writer_id = writer
        # The server forgets earlier writers when there are many.
        await self._save(Stored(self._state, progress.encode()).encode())
        await self._end_recovery()

    async def _end_recovery(self) -> None:
        """Complete or drop the pending batch, about which it is decided."""
        progress = self._progress
        pending = progress.pending
        if pending is None:
            return
        if pending.is_committed:
            await self._complete(pending)
            progress.batch_id = pending.batch_id
            await self._settled(bytes(pending.state))
        else:
            await self._abort(pending)
            await self._settled(self._state)

    async def _was_committed(self, writer: str, batch_id: int) -> bool:
        """Return whether an earlier writer has committed a batch: its empty commit has no effect any more."""
        try:
            call = self._calls.commit_transaction(self._home, self._name, writer, batch_id, ())
            return bool((await self._asked(call)).already_committed)
        except Fenced:
            return False

    async def _asked(self, call: Awaitable[Value]) -> Value:
        try:
            return await call
        except HeadraceError as error:
            if error.code == Status.TRANSACTION_FENCED:
                raise Fenced(_FENCED.format(name=self._name, stream=self._home)) from error
            if isinstance(error, _UNKNOWN) or error.retryable:
                raise Unavailable(f"the last batch cannot be looked up: {error}") from error
            raise ConnectorError(
                f"the last batch under the transaction {self._name} of stream {self._home} cannot be looked up: "
                f"{error}. The user needs the permissions to read the stream, and to send to its topics and poll them; "
                "if the stream was deleted, remove the state deliberately to start over"
            ) from error


def _is_about_stages(error: HeadraceError) -> bool:
    """Return True if the server has looked at the transaction: it would have said that the batch is committed."""
    return isinstance(error, NotFound) or error.code in (Status.STAGE_EXPIRED, Status.STAGE_ABORTED)


def _identity() -> str:
    return uuid.uuid4().hex
