"""Log positions from partition nodes: offsets of timestamps, and split points of ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import grpc

from headrace_proto.partition import v1
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from pyspark_headrace.cluster.description import Partition, Topic, offset_of_wire
from pyspark_headrace.cluster.node import TICKET_METADATA
from pyspark_headrace.cluster.retrying import Attempts, is_worthwhile, said, status_of
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import ServerRefusedError, UnreachableError
from pyspark_headrace.options.connection import ConnectionOptions

_CALL_SECONDS: Final = 60.0
_T = TypeVar("_T")


def offsets_of_time(
    topic: Topic, address: str, numbers: Sequence[int], at_micros: int, ticket: str, options: ConnectionOptions
) -> dict[int, int]:
    """Request the first offset at or after a timestamp for partitions of one node.

    The result for a partition without such a message is its end offset.

    Raises:
        ServerRefusedError: The node refuses the request.
        UnreachableError: The node does not answer.
    """
    request = v1.GetOffsetsRequest(
        stream_id=topic.stream_id, topic_id=topic.topic_id, partition_ids=numbers, timestamp_micros=at_micros
    )
    response = _asked(
        lambda stub, **how: stub.GetOffsets(request, **how),
        f"offsets of {topic.title} at {at_micros} microseconds since 1970",
        address,
        ticket,
        options,
    )
    return {found.partition_id: offset_of_wire(found.offset_of_timestamp) for found in response.partitions}


def cuts(
    topic: Topic, partition: Partition, start: int, end: int, target_bytes: int, ticket: str, options: ConnectionOptions
) -> list[tuple[int, int]]:
    """Request the split points of a range for parts of about `target_bytes`.

    Returns:
        Start offset and size of each part. The first part starts with the range.

    Raises:
        ServerRefusedError: The node refuses the request.
        UnreachableError: The node does not answer.
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
    response = _asked(
        lambda stub, **how: stub.PlanRange(request, **how),
        f"parts of {topic.title}, partition {partition.partition_id}",
        partition.address,
        ticket,
        options,
    )
    # Offsets below the start of the log belong to the first part: the task that reads it reports the loss.
    inner = [(part.start_offset, part.size_bytes) for part in response.parts[1:] if start < part.start_offset < end]
    return [(start, response.parts[0].size_bytes if response.parts else 0), *inner]


def _asked(ask: Callable[..., _T], what: str, address: str, ticket: str, options: ConnectionOptions) -> _T:
    attempts = Attempts(options)
    while True:
        try:
            stub = PartitionStub(runtime().node(address, options))
            return ask(stub, metadata=((TICKET_METADATA, ticket),), timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            if not is_worthwhile(error):
                raise ServerRefusedError(f"{what}: {said(error)}", status_of(error)) from error
            if not attempts.again():
                raise UnreachableError(f"{what}: {address} does not answer: {said(error)}") from error
