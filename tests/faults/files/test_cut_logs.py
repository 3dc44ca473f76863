"""LOG-21: a reader notices a log that has lost its end and has grown again."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

import headrace_core as core
from headrace_proto.gateway import v1
from headrace_proto.partition.v1 import GetOffsetsRequest
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.faults import segment_files
from tests.server_process import ServerProcess

SECONDS = 60
SETTINGS = TWO_SHARDS | {"MESSAGE_SAVER_SYNC_INTERVAL": "1 h"}
STREAM, TOPIC = v1.Identifier(name="s"), v1.Identifier(name="t")


def openings(state: v1.PartitionDescription) -> list[tuple[int, int]]:
    return [(opening.epoch, opening.end_offset) for opening in state.openings]


def described(server: ServerProcess, token: str) -> v1.PartitionDescription:
    """Return what the gateway says of the partition. Its node says the same."""
    with GrpcCaller(server.grpc_address, token) as caller:
        ask = v1.IssueTicketRequest(stream=STREAM, topic=TOPIC, read=True)
        ticket = caller.pipelines.IssueTicket(ask, timeout=SECONDS).ticket
        (topic,) = caller.pipelines.DescribeTopics(v1.DescribeTopicsRequest(stream=STREAM), timeout=SECONDS).topics
    (partition,) = topic.partitions
    with grpc.insecure_channel(partition.grpc_address) as channel:
        request = GetOffsetsRequest(stream_id=topic.stream_id, topic_id=topic.topic_id, partition_ids=[0])
        answer = PartitionStub(channel).GetOffsets(request, metadata=(("headrace-ticket", ticket),), timeout=SECONDS)
    assert [(one.epoch, one.end_offset) for one in answer.partitions[0].openings] == openings(partition)
    return partition


def send(server: ServerProcess, count: int) -> None:
    with RawConnection.as_root(server.address) as connection:
        for _ in range(count):
            connection.send("s", "t", 0, b"x" * 100)


@pytest.mark.long
def test_a_log_that_was_cut_says_where(tmp_path: Path) -> None:
    """Everything else that a reader can compare is as if nothing had happened."""
    server = ServerProcess(tmp_path / "data", SETTINGS).start()
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        token = access_token(connection)
    send(server, 10)
    before = described(server, token)
    server.kill()
    # Nothing is synced: a power cut may leave this much.
    (log,) = segment_files.logs(server.data / "streams/0/topics/0/partitions/0")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 10 * 5)
    server.start()
    send(server, 8)
    after = described(server, token)
    assert (before.next_offset, after.next_offset) == (10, 13)
    assert (after.incarnation, after.purge_epoch) == (before.incarnation, before.purge_epoch)
    epoch = before.openings[-1].epoch
    assert core.cut_since(openings(after), epoch=epoch, position=10) == 5
    assert core.cut_since(openings(after), epoch=epoch, position=5) is None
    server.stop()
    server.start()
    send(server, 1)
    last = described(server, token)
    server.stop()
    assert last.openings[-1].epoch > after.openings[-1].epoch
    assert core.cut_since(openings(last), epoch=after.openings[-1].epoch, position=13) is None
    assert core.cut_since(openings(last), epoch=epoch, position=10) == 5
