"""The embedded server's port for raw batches over TLS."""

from __future__ import annotations

import grpc
import pytest

from headrace_proto.gateway import v1
from headrace_proto.partition.v1 import GetOffsetsRequest
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles

SECONDS = 20


def test_tickets_are_shown_to_holders_of_the_certificate(start_server: StartServer, files: ServerFiles) -> None:
    """The port answers over TLS; a client without trust or without TLS fails before it sends a request."""
    server = start_server({"PIPELINES_TLS_CERTIFICATE": str(files.certificate), "PIPELINES_TLS_KEY": str(files.key)})
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        token = access_token(connection)
    name = v1.Identifier(name="s"), v1.Identifier(name="t")
    with GrpcCaller(server.grpc_address, token) as caller:
        ticket = caller.pipelines.IssueTicket(v1.IssueTicketRequest(stream=name[0], topic=name[1], read=True)).ticket
        (topic,) = caller.pipelines.DescribeTopics(v1.DescribeTopicsRequest(stream=name[0])).topics
    request = GetOffsetsRequest(stream_id=topic.stream_id, topic_id=topic.topic_id, partition_ids=[0])
    address = f"localhost:{topic.partitions[0].grpc_address.rpartition(':')[2]}"
    trusting = grpc.ssl_channel_credentials(files.authority.cert_pem.bytes())

    def asked(channel: grpc.Channel) -> int:
        with channel:
            answer = PartitionStub(channel).GetOffsets(
                request, metadata=(("headrace-ticket", ticket),), timeout=SECONDS
            )
        return len(answer.partitions)

    assert asked(grpc.secure_channel(address, trusting)) == 1
    for unauthenticated in (
        grpc.secure_channel(address, grpc.ssl_channel_credentials()),
        grpc.insecure_channel(address),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            asked(unauthenticated)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
