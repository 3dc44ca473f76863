"""Log positions from partition nodes: offsets of timestamps, and split points of ranges. The caller handles errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace_proto.partition import v1
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from pyspark_headrace.cluster.description import Partition, Topic, offset_of_wire
from pyspark_headrace.cluster.node import TICKET_METADATA
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.options.connection import ConnectionOptions

_CALL_SECONDS: Final = 60.0


def offsets_of_time(
    topic: Topic, address: str, numbers: Sequence[int], at_micros: int, ticket: str, options: ConnectionOptions
) -> dict[int, int]:
    """Request the first offset at or after a timestamp for partitions of one node.

    The result for a partition without such a message is its end offset.

    Raises:
        grpc.RpcError: The call has failed.
    """
    request = v1.GetOffsetsRequest(
        stream_id=topic.stream_id, topic_id=topic.topic_id, partition_ids=numbers, timestamp_micros=at_micros
    )
    stub = PartitionStub(runtime().node(address, options))
    response = stub.GetOffsets(request, metadata=((TICKET_METADATA, ticket),), timeout=_CALL_SECONDS)
    return {found.partition_id: offset_of_wire(found.offset_of_timestamp) for found in response.partitions}


def cuts(
    topic: Topic, partition: Partition, start: int, end: int, target_bytes: int, ticket: str, options: ConnectionOptions
) -> list[tuple[int, int]]:
    """Request the split points of a range for parts of about `target_bytes`.

    Returns:
        Start offset and size of each part. The first part starts with the range.

    Raises:
        grpc.RpcError: The call has failed.
    """
    request = v1.PlanRangeRequest(
        place=v1.Place(
            stream_id=topic.stream_id,
            topic_id=topic.topic_id,
            partition_id=partition.partition_id,
            incarnation=partition.incarnation,
        ),
        start_offset=start,
        end_offset=end,
        target_bytes=target_bytes,
    )
    stub = PartitionStub(runtime().node(partition.address, options))
    response = stub.PlanRange(request, metadata=((TICKET_METADATA, ticket),), timeout=_CALL_SECONDS)
    # Offsets below the start of the log belong to the first part: the task that reads it reports the loss.
    inner = [(part.start_offset, part.size_bytes) for part in response.parts[1:] if start < part.start_offset < end]
    return [(start, response.parts[0].size_bytes if response.parts else 0), *inner]
