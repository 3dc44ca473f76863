"""Exactly once over gRPC (SPK-1): batches staged at the nodes of their partitions are committed once, atomically."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, status_of
from tests.apis.grpc.writer import GrpcWriter
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.server_process import ServerProcess

PARTITIONS = 2
SECONDS = 30


@pytest.fixture
def writer(shared_server: ServerProcess, root: GrpcCaller, stream: str) -> Iterator[GrpcWriter]:
    with RawConnection.as_root(shared_server.address) as connection:
        connection.create_topic(stream, partitions=PARTITIONS)
    with GrpcWriter(root, stream) as writer:
        yield writer


def refusal(call: object, *given: object, **more: object) -> Status:
    with pytest.raises(grpc.RpcError) as raised:
        call(*given, **more)  # type: ignore[operator]
    return Status(status_of(raised.value)[1])


def test_a_batch_is_committed_once_and_then_seen(writer: GrpcWriter) -> None:
    assert writer.last() is None
    stages = writer.staged(0, b"a", b"b"), writer.staged(1, b"c")
    assert (writer.read(0), writer.read(1)) == ([], [])
    first = writer.commit(7, *stages)
    assert not first.was_committed
    eventually("the messages", lambda: (writer.read(0), writer.read(1)) == ([b"a", b"b"], [b"c"]))
    again = writer.commit(7, *stages)
    assert (again.was_committed, again.number) == (True, first.number)
    assert writer.commit(6, writer.staged(0, b"late")).was_committed, "as one of the same query that came before"
    second = writer.commit(8, writer.staged(0, b"d"))
    assert (second.was_committed, second.number > first.number) == (False, True)
    eventually("the next batch", lambda: writer.read(0) == [b"a", b"b", b"d"])
    last = writer.last()
    assert last is not None
    assert (last.query_id, last.batch_id, last.number) == ("query", 8, second.number)
    assert last.committed_at_micros > 0
    assert not writer.commit(9).was_committed, "an empty batch is one"


def test_another_query_takes_over_only_if_it_says_so(writer: GrpcWriter) -> None:
    writer.commit(1)
    mine, other = writer.staged(0, b"mine"), writer.staged(0, b"other")
    assert refusal(writer.commit, 0, other, query_id="other") == Status.TRANSACTION_FENCED
    assert not writer.commit(0, other, query_id="other", fence=True).was_committed
    assert refusal(writer.commit, 2, mine) == Status.TRANSACTION_FENCED
    eventually("the other's", lambda: writer.read(0) == [b"other"])
    writer.listener.pipelines.DeleteTransaction(v1.DeleteTransactionRequest(**writer.names))
    assert writer.last() is None


def test_what_is_given_up_is_never_committed(writer: GrpcWriter) -> None:
    stage = writer.staged(0, b"no")
    assert not writer.abort(1, stage).was_committed
    assert refusal(writer.commit, 1, stage) == Status.STAGE_ABORTED
    kept = writer.staged(0, b"yes")
    writer.commit(1, kept)
    assert writer.abort(1, kept).was_committed
    eventually("the kept", lambda: writer.read(0) == [b"yes"])


def test_stages_that_are_none(writer: GrpcWriter) -> None:
    stage = writer.staged(0, b"x")
    short = v1.StagedPart(topic_id=stage.topic_id, incarnation=stage.incarnation, stage_id=b"short")
    assert refusal(writer.commit, 1, short) == Status.INVALID_COMMAND
    assert refusal(writer.commit, 1, stage, stage) == Status.STAGE_IN_USE
    expired = v1.StagedPart(topic_id=stage.topic_id, incarnation=stage.incarnation, stage_id=bytes(8) + b"whatever")
    assert refusal(writer.commit, 1, expired) == Status.STAGE_EXPIRED


def test_the_first_reader_of_a_name_decides(root: GrpcCaller, writer: GrpcWriter) -> None:
    reader = {"stream": v1.Identifier(name=writer.stream), "reader": "query"}

    def pin(value: bytes) -> v1.PinReaderResponse:
        return root.pipelines.PinReader(v1.PinReaderRequest(**reader, value=value), timeout=SECONDS)

    assert pin(b"one") == v1.PinReaderResponse(was_there=False, value=b"one")
    assert pin(b"two") == v1.PinReaderResponse(was_there=True, value=b"one")
    root.pipelines.UnpinReader(v1.UnpinReaderRequest(**reader))
    root.pipelines.UnpinReader(v1.UnpinReaderRequest(**reader))
    assert pin(b"two") == v1.PinReaderResponse(was_there=False, value=b"two")
    assert refusal(pin, bytes(256 * 1024 + 1)) == Status.PIN_TOO_LARGE
