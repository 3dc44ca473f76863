"""Transaction API of gateways: commit, abort, last committed batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.limits import STAGES_PER_COMMAND_MAX
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.errors import FencedError, ServerRefusedError, StageExpiredError
from pyspark_headrace.transactions.staged import Part, Transaction

_FENCED: Final = (
    "another query has written under the transactionalId {name}: the checkpoint was deleted, or two queries have one "
    "name. Nothing of this batch is visible. Choose another name, or begin with a new checkpoint and "
    "onCheckpointReset = fence, which ends the writing of the other query: what that had written stays"
)
_EXPIRED: Final = (
    "what was staged for batch {batch_id} has expired before it was committed; nothing of it is visible. "
    "A batch that takes longer needs a greater stageLifetime"
)


class Last(NamedTuple):
    """Last committed batch under a transactional id."""

    query_id: str
    batch_id: int


class Transactions(Gateway):
    """Gateway client for commits and aborts."""

    def commit(self, stream_id: int, transaction: Transaction, parts: Sequence[Part], *, fence: bool) -> bool:
        """Commit staged messages to their partitions. A caller that does not know the outcome repeats the call.

        Args:
            stream_id: Stream of the topics.
            transaction: Transaction of the batch.
            parts: Stages; those of one partition in append order.
            fence: Take the transactional id over from another query.

        Returns:
            True if this call has committed the batch; False if it was committed before.

        Raises:
            FencedError: Another query writes under the same transactional id.
            StageExpiredError: A stage has expired.
            ServerRefusedError: Any other refusal; nothing was committed.
            UnreachableError: No server answers; the outcome is unknown.
        """
        name, query_id, batch_id = transaction
        if len(parts) > STAGES_PER_COMMAND_MAX:
            raise ServerRefusedError(
                f"batch {batch_id} has {len(parts)} stages, tasks times partitions; a commit takes "
                f"{STAGES_PER_COMMAND_MAX}: coalesce() makes them fewer"
            )
        request = v1.CommitTransactionRequest(
            stream=v1.Identifier(id=stream_id),
            transaction=name,
            query_id=query_id,
            batch_id=batch_id,
            fence=fence,
            stages=[part.on_wire() for part in parts],
        )
        try:
            answer = self._call(
                lambda stub, **how: stub.CommitTransaction(request, **how), f"committing batch {batch_id} of {name}"
            )
        except ServerRefusedError as error:
            if error.status == Status.TRANSACTION_FENCED:
                raise FencedError(_FENCED.format(name=name), error.status) from error
            if error.status == Status.STAGE_EXPIRED:
                raise StageExpiredError(_EXPIRED.format(batch_id=batch_id), error.status) from error
            raise
        return not answer.was_committed

    def abort(self, stream_id: int, transaction: Transaction, parts: Sequence[Part]) -> bool:
        """Discard stages before they expire, to free their disk space.

        Returns:
            True if the stages are discarded; False if the batch is committed.

        Raises:
            ServerRefusedError: The server refuses; the stages will expire.
            UnreachableError: No server answers.
        """
        name, query_id, batch_id = transaction
        for begin in range(0, len(parts), STAGES_PER_COMMAND_MAX):
            request = v1.AbortTransactionRequest(
                stream=v1.Identifier(id=stream_id),
                transaction=name,
                query_id=query_id,
                batch_id=batch_id,
                stages=[part.on_wire() for part in parts[begin : begin + STAGES_PER_COMMAND_MAX]],
            )
            answer = self._call(
                lambda stub, request=request, **how: stub.AbortTransaction(request, **how),
                f"giving up batch {batch_id} of {name}",
            )
            if answer.was_committed:
                return False
        return True

    def last(self, stream_id: int, name: str) -> Last | None:
        """Return the last committed batch under a transactional id.

        Raises:
            ServerRefusedError: The user is not authorized to look the batch up, but may be authorized to write.
            UnreachableError: No server answers.
        """
        request = v1.GetTransactionRequest(stream=v1.Identifier(id=stream_id), transaction=name)
        answer = self._call(lambda stub, **how: stub.GetTransaction(request, **how), f"the last batch of {name}")
        if not answer.HasField("transaction"):
            return None
        return Last(answer.transaction.query_id, answer.transaction.batch_id)
