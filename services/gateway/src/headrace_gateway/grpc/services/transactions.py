"""Transactions of idempotent writers, and the offsets stored with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import identifier
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_STAGE_ID_BYTES: Final = 16


class Transactions:
    """Exactly-once calls of ``headrace.gateway.v1.Pipelines``."""

    async def commit_transaction(
        self, request: v1.CommitTransactionRequest, caller: Caller
    ) -> v1.CommitTransactionResponse:
        command = core.encode_commit_transaction(
            stream=identifier(request.stream, "stream"),
            transaction=request.transaction,
            query_id=request.query_id,
            batch_id=request.batch_id,
            fence=request.fence,
            stages=_stages(request.stages),
        )
        result = core.decode_transaction_result(await caller.execute(command))
        return v1.CommitTransactionResponse(was_committed=result.already_committed, number=result.number)

    async def abort_transaction(
        self, request: v1.AbortTransactionRequest, caller: Caller
    ) -> v1.AbortTransactionResponse:
        command = core.encode_abort_transaction(
            stream=identifier(request.stream, "stream"),
            transaction=request.transaction,
            query_id=request.query_id,
            batch_id=request.batch_id,
            stages=_stages(request.stages),
        )
        result = core.decode_transaction_result(await caller.execute(command))
        return v1.AbortTransactionResponse(was_committed=result.already_committed)

    async def get_transaction(self, request: v1.GetTransactionRequest, caller: Caller) -> v1.GetTransactionResponse:
        stream = identifier(request.stream, "stream")
        command = core.encode_get_transaction(stream=stream, transaction=request.transaction)
        found = core.decode_transaction(await caller.execute(command))
        if found is None:
            return v1.GetTransactionResponse()
        return v1.GetTransactionResponse(
            transaction=v1.Transaction(
                query_id=found.query_id,
                batch_id=found.batch_id,
                number=found.number,
                committed_at_micros=found.committed_at,
            )
        )

    async def delete_transaction(
        self, request: v1.DeleteTransactionRequest, caller: Caller
    ) -> v1.DeleteTransactionResponse:
        stream = identifier(request.stream, "stream")
        await caller.execute(core.encode_delete_transaction(stream=stream, transaction=request.transaction))
        return v1.DeleteTransactionResponse()

    async def pin_reader(self, request: v1.PinReaderRequest, caller: Caller) -> v1.PinReaderResponse:
        stream = identifier(request.stream, "stream")
        command = core.encode_pin_reader(stream=stream, reader=request.reader, value=request.value)
        pinned = core.decode_pinned_reader(await caller.execute(command))
        return v1.PinReaderResponse(was_there=pinned.was_there, value=pinned.value)

    async def unpin_reader(self, request: v1.UnpinReaderRequest, caller: Caller) -> v1.UnpinReaderResponse:
        stream = identifier(request.stream, "stream")
        await caller.execute(core.encode_unpin_reader(stream=stream, reader=request.reader))
        return v1.UnpinReaderResponse()


def _stages(stages: Iterable[v1.StagedPart]) -> list[tuple[int, int, int, int]]:
    """Return topic, partition, incarnation and number of each stage."""
    found = []
    for stage in stages:
        if len(stage.stage_id) != _STAGE_ID_BYTES:
            raise Refused(Status.INVALID_COMMAND, f"stages: a stage_id has {_STAGE_ID_BYTES} bytes")
        number = int.from_bytes(stage.stage_id, "big")
        found.append((stage.topic_id, stage.partition_id, stage.incarnation, number))
    return found
