"""An exactly-once writer: it stages batches at the nodes of the partitions and commits at a gateway."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import grpc

from headrace_core import encode_send_messages
from headrace_proto.gateway import v1
from headrace_proto.partition.v1 import Place, StageRequest
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.apis.grpc.caller import GrpcCaller

SECONDS = 60


class GrpcWriter:
    """A writer to a topic `t` of a stream, with the transaction `sink`."""

    def __init__(self, listener: GrpcCaller, stream: str) -> None:
        """Fetch the placement of the partitions and a ticket.

        Args:
            `listener`: Client of a user with all rights.
            stream: Name of the stream, which has the topic.
        """
        self.listener = listener
        self.stream = stream
        named = v1.Identifier(name=stream)
        (self.topic,) = listener.pipelines.DescribeTopics(
            v1.DescribeTopicsRequest(stream=named), timeout=SECONDS
        ).topics
        request = v1.IssueTicketRequest(stream=named, topic=v1.Identifier(name="t"), write=True)
        self._shown = (("headrace-ticket", listener.pipelines.IssueTicket(request, timeout=SECONDS).ticket),)
        addresses = {partition.grpc_address for partition in self.topic.partitions}
        self._channels = {address: grpc.insecure_channel(address) for address in addresses}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            channel.close()

    @property
    def names(self) -> dict[str, object]:
        return {"stream": v1.Identifier(name=self.stream), "transaction": "sink"}

    def staged(self, partition: int, *payloads: bytes) -> v1.StagedPart:
        messages = [(0, payload, b"") for payload in payloads]
        _, payload = encode_send_messages(messages, stream=self.stream, topic="t", partition=partition)
        # Skip the metadata, which is preceded by its length.
        batch = payload[4 + int.from_bytes(payload[:4], "little") :]
        place = Place(stream_id=self.topic.stream_id, topic_id=self.topic.topic_id, partition_id=partition)
        requests = [StageRequest(place=place), StageRequest(messages_count=len(payloads), batch=batch)]
        partitions = PartitionStub(self._channels[self.topic.partitions[partition].grpc_address])
        answer = partitions.Stage(iter(requests), metadata=self._shown, timeout=SECONDS)
        assert answer.messages_count == len(payloads)
        return v1.StagedPart(
            topic_id=self.topic.topic_id,
            partition_id=partition,
            incarnation=self.topic.partitions[partition].incarnation,
            stage_id=answer.stage_id,
        )

    def commit(
        self, batch_id: int, *stages: v1.StagedPart, query_id: str = "query", fence: bool = False
    ) -> v1.CommitTransactionResponse:
        request = v1.CommitTransactionRequest(
            **self.names, query_id=query_id, batch_id=batch_id, fence=fence, stages=stages
        )
        return self.listener.pipelines.CommitTransaction(request, timeout=SECONDS)

    def abort(self, batch_id: int, *stages: v1.StagedPart) -> v1.AbortTransactionResponse:
        request = v1.AbortTransactionRequest(**self.names, query_id="query", batch_id=batch_id, stages=stages)
        return self.listener.pipelines.AbortTransaction(request, timeout=SECONDS)

    def last(self) -> v1.Transaction | None:
        answer = self.listener.pipelines.GetTransaction(v1.GetTransactionRequest(**self.names), timeout=SECONDS)
        return answer.transaction if answer.HasField("transaction") else None

    def read(self, partition: int) -> list[bytes]:
        request = v1.PollRequest(
            stream=v1.Identifier(name=self.stream),
            topic=v1.Identifier(name="t"),
            partition_id=partition,
            start=v1.Start(first=v1.Start.First()),
            count=1000,
        )
        return [message.payload for message in self.listener.messages.Poll(request, timeout=SECONDS).messages]
