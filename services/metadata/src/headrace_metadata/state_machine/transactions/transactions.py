"""Commands on transactions: staged batches of many partitions are committed atomically and exactly once.

Statuses in the order in which they are checked: commit 4, 3, 20303, 1009, 41, 20300, 2010, 3007, 20303, 20301, 20302,
20306, 20307; abort 4, 3, 20303, 1009, 20303, 20306; delete 1009. A batch that is already committed is detected before
its stages are checked: a repeated commit gets the same answer even after the stages have expired or their topic was
deleted.

A node drops an uncommitted stage as soon as it knows every change up to the stage's expiry. Hence the central
invariant: a commit names no stage that has expired by the timestamp of its operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.names import check_name
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.transactions.records import oldest_of
from headrace_metadata.state_machine.transactions.stages import Place, expires_at_micros
from headrace_proto.catalog.v1 import AbortedStages, Partition, PendingPublication
from headrace_proto.errors import Status
from headrace_proto.limits import (
    QUERIES_PER_TRANSACTION_MAX,
    STAGE_ID_BYTES,
    STAGE_LIFETIME_SECONDS_MAX,
    STAGES_ABORTED_MAX,
    STAGES_PENDING_MAX,
    STAGES_PENDING_PER_PARTITION_MAX,
    STAGES_PER_COMMAND_MAX,
    TRANSACTION_KEPT_SECONDS_MIN,
    TRANSACTIONS_MAX,
    TRANSACTIONS_PER_STREAM_MAX,
)
from headrace_proto.metadata.v1 import (
    TRANSACTION_OUTCOME_ABORTED,
    TRANSACTION_OUTCOME_ALREADY_COMMITTED,
    TRANSACTION_OUTCOME_COMMITTED,
    AbortTransaction,
    CommitTransaction,
    DeleteTransaction,
    PublicationsApplied,
    QueryProgress,
    Reply,
    StagesOfPartition,
    Transaction,
    TransactionResult,
)

_MICROS: Final = 1_000_000
# Partitions and metadata service have different clocks. An expiry further ahead than this does not come from a
# partition, and would have to be remembered for too long.
_FURTHEST_EXPIRY_MICROS: Final = (STAGE_LIFETIME_SECONDS_MAX + 24 * 60 * 60) * _MICROS
_KEPT_MICROS: Final = TRANSACTION_KEPT_SECONDS_MIN * _MICROS

_Stages = dict[Place, tuple[int, list[bytes]]]
"""Stages by partition: the partition's incarnation, and the ids of stages in the order of the command."""


def commit(state: State, context: CommandContext, command: CommitTransaction) -> Reply:
    """Commit a batch: its stages are pending until the partitions have appended them."""
    _check_names(command)
    wanted = _stages(context, command.stream_id, command.stages)
    stream = state.catalog.stream(command.stream_id)
    last = state.transactions.find(stream.id, command.name)
    owner_user_id = _owner(state, context, command, last)
    if _is_committed(last, command):
        return Reply(
            transaction_result=TransactionResult(outcome=TRANSACTION_OUTCOME_ALREADY_COMMITTED, transaction=last)
        )
    if last is not None and last.query_id != command.query_id and not command.fence:
        raise Refused(Status.TRANSACTION_FENCED)
    for place, (incarnation, _) in wanted.items():
        if _partition(state, place).incarnation != incarnation:
            raise Refused(Status.PARTITION_NOT_FOUND)
    _check_stages(state, context, wanted)
    forgotten = _in_whose_place(state, context, command, owner_user_id) if last is None else None

    if forgotten is not None:
        state.transactions.remove(stream.id, forgotten.name)
    for place in sorted(wanted):
        incarnation, stage_ids = wanted[place]
        state.stages.put_publication(
            PendingPublication(
                stream_id=place[0],
                topic_id=place[1],
                partition_id=place[2],
                partition_incarnation=incarnation,
                number=context.op,
                stage_ids=stage_ids,
            )
        )
    transaction = Transaction(
        stream_id=stream.id,
        name=command.name,
        query_id=command.query_id,
        batch_id=command.batch_id,
        number=context.op,
        committed_at_micros=context.timestamp_micros,
        earlier_queries=_earlier_queries(last, command.query_id),
        owner_user_id=owner_user_id,
    )
    state.transactions.put(transaction)
    return Reply(transaction_result=TransactionResult(outcome=TRANSACTION_OUTCOME_COMMITTED, transaction=transaction))


def abort(state: State, context: CommandContext, command: AbortTransaction) -> Reply:
    """Abort the stages of a batch. Expired stages and stages of deleted partitions need not be recorded."""
    _check_names(command)
    wanted = _stages(context, command.stream_id, command.stages)
    stream = state.catalog.stream(command.stream_id)
    last = state.transactions.find(stream.id, command.name)
    if _is_committed(last, command):
        return Reply(
            transaction_result=TransactionResult(outcome=TRANSACTION_OUTCOME_ALREADY_COMMITTED, transaction=last)
        )
    if any(state.stages.is_pending(stage_id) for _, stage_ids in wanted.values() for stage_id in stage_ids):
        raise Refused(Status.STAGE_IN_USE)
    remembered = {
        place: [
            stage_id
            for stage_id in stage_ids
            if expires_at_micros(stage_id) > context.timestamp_micros and not state.stages.is_aborted(stage_id)
        ]
        for place, (incarnation, stage_ids) in wanted.items()
        if _has_partition(state, place, incarnation)
    }
    if state.stages.aborted_count + sum(map(len, remembered.values())) > STAGES_ABORTED_MAX:
        raise Refused(Status.TOO_MANY_STAGES)

    for place in sorted(remembered):
        if remembered[place]:
            state.stages.put_aborted(
                AbortedStages(
                    stream_id=place[0],
                    topic_id=place[1],
                    partition_id=place[2],
                    partition_incarnation=wanted[place][0],
                    number=context.op,
                    stage_ids=remembered[place],
                )
            )
    return Reply(transaction_result=TransactionResult(outcome=TRANSACTION_OUTCOME_ABORTED, transaction=last))


def applied(state: State, command: PublicationsApplied) -> Reply:
    """Record that partitions have appended their committed stages.

    Entries of deleted partitions are ignored, because the proposer cannot know that.
    """
    for done in command.partitions:
        place = (done.stream_id, done.topic_id, done.partition_id)
        if _has_partition(state, place, done.partition_incarnation):
            state.stages.remove_publications(place, done.number)
    return Reply()


def delete(state: State, command: DeleteTransaction) -> Reply:
    """Delete the record of the last commit under a name."""
    stream = state.catalog.stream(command.stream_id)
    state.transactions.remove(stream.id, command.name)
    return Reply()


def pulse(state: State, context: CommandContext) -> None:
    """Remove expired records of aborted stages."""
    state.stages.forget_aborted(context.timestamp_micros)


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Return whether a `Pulse` command at this time would remove anything."""
    over_at = state.stages.next_forgotten_at_micros()
    return over_at is not None and over_at <= now_micros


def _check_names(command: CommitTransaction | AbortTransaction) -> None:
    check_name(command.name)
    check_name(command.query_id)


def _stages(context: CommandContext, stream_id: int, given: Iterable[StagesOfPartition]) -> _Stages:
    """Group the stages of a command by partition.

    Raises:
        Refused: 3, a stage id is invalid, there are too many stages, or a partition has two incarnations; 20303, a
            stage
            is named twice.
    """
    wanted: _Stages = {}
    known: set[bytes] = set()
    count = 0
    latest_micros = context.timestamp_micros + _FURTHEST_EXPIRY_MICROS
    for stages in given:
        place = (stream_id, stages.topic_id, stages.partition_id)
        incarnation, stage_ids = wanted.setdefault(place, (stages.partition_incarnation, []))
        stage_ids.extend(stages.stage_ids)
        known.update(stages.stage_ids)
        count += len(stages.stage_ids)
        if incarnation != stages.partition_incarnation or count > STAGES_PER_COMMAND_MAX:
            raise Refused(Status.INVALID_COMMAND)
    for _, stage_ids in wanted.values():
        if any(
            len(stage_id) != STAGE_ID_BYTES or expires_at_micros(stage_id) > latest_micros for stage_id in stage_ids
        ):
            raise Refused(Status.INVALID_COMMAND)
    if len(known) < count:
        raise Refused(Status.STAGE_IN_USE)
    return {place: (incarnation, stage_ids) for place, (incarnation, stage_ids) in wanted.items() if stage_ids}


def _is_committed(last: Transaction | None, command: CommitTransaction | AbortTransaction) -> bool:
    if last is None:
        return False
    # Includes queries that were fenced from the transaction: their commits are final.
    progress = {earlier.query_id: earlier.batch_id for earlier in last.earlier_queries}
    progress[last.query_id] = last.batch_id
    return command.query_id in progress and command.batch_id <= progress[command.query_id]


def _earlier_queries(last: Transaction | None, query_id: str) -> list[QueryProgress]:
    if last is None:
        return []
    earlier = [progress for progress in last.earlier_queries if progress.query_id != query_id]
    if last.query_id != query_id:
        earlier.append(QueryProgress(query_id=last.query_id, batch_id=last.batch_id))
    return earlier[-QUERIES_PER_TRANSACTION_MAX:]


def _check_stages(state: State, context: CommandContext, wanted: _Stages) -> None:
    stage_ids = [stage_id for _, stage_ids in wanted.values() for stage_id in stage_ids]
    if any(state.stages.is_pending(stage_id) for stage_id in stage_ids):
        raise Refused(Status.STAGE_IN_USE)
    if any(expires_at_micros(stage_id) <= context.timestamp_micros for stage_id in stage_ids):
        raise Refused(Status.STAGE_EXPIRED)
    if any(state.stages.is_aborted(stage_id) for stage_id in stage_ids):
        raise Refused(Status.STAGE_ABORTED)
    if state.stages.pending_count + len(stage_ids) > STAGES_PENDING_MAX or any(
        state.stages.pending_at(place) + len(of_place) > STAGES_PENDING_PER_PARTITION_MAX
        for place, (_, of_place) in wanted.items()
    ):
        raise Refused(Status.TOO_MANY_STAGES)


def _owner(state: State, context: CommandContext, command: CommitTransaction, last: Transaction | None) -> int | None:
    """Return the user whom the name belongs to from this commit on: the first one who is there.

    Raises:
        Refused: 41, another user's writers use the name: who could commit under it would end their writing.
    """
    if last is None or not last.HasField("owner_user_id") or state.accounts.find_user(last.owner_user_id) is None:
        return context.actor_user_id if command.is_owned else None
    if command.own_only and last.owner_user_id != context.actor_user_id:
        raise Refused(Status.UNAUTHORIZED)
    return last.owner_user_id


def _in_whose_place(
    state: State, context: CommandContext, command: CommitTransaction, owner_user_id: int | None
) -> Transaction | None:
    """Return the transaction that is evicted for a new one, if any. A user with half of them evicts one of their own.

    Raises:
        Refused: 20307, no transaction can be evicted.
    """
    of_owner = state.transactions.of_owner(command.stream_id, owner_user_id)
    is_half = len(of_owner) >= TRANSACTIONS_PER_STREAM_MAX // 2
    if is_half or state.transactions.count_of(command.stream_id) >= TRANSACTIONS_PER_STREAM_MAX:
        oldest = oldest_of(of_owner) if is_half else state.transactions.oldest_of(command.stream_id)
        if oldest.committed_at_micros + _KEPT_MICROS > context.timestamp_micros:
            raise Refused(Status.TOO_MANY_TRANSACTIONS)
        return oldest
    if state.transactions.count >= TRANSACTIONS_MAX:
        raise Refused(Status.TOO_MANY_TRANSACTIONS)
    return None


def _partition(state: State, place: Place) -> Partition:
    stream_id, topic_id, partition_id = place
    partitions = state.catalog.topic(stream_id, topic_id).partitions
    if partition_id >= len(partitions):
        raise Refused(Status.PARTITION_NOT_FOUND)
    return partitions[partition_id]


def _has_partition(state: State, place: Place, incarnation: int) -> bool:
    try:
        return _partition(state, place).incarnation == incarnation
    except Refused:
        return False
