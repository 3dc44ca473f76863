"""Conversion of the native side's trace records to spans.

A request produces two records: one at its connection, and one at its partition, which comes no later. Together they
contain the times of the request's start, of the arrival of its messages at the partition, of write and sync, and of the
answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from headrace_node.tracing.interface import Tracing
from headrace_proto.errors import Status, find
from headrace_proto.trace_context import TraceContext

Key = tuple[int, int]

_INTERVAL_SECONDS: Final = 0.5
# Maximum number of records without a counterpart: it was dropped, or the request was never answered.
_PARTITIONS_MAX: Final = 16_384


class RequestRecord(NamedTuple):
    """A request at its connection; documented in the stub of ``headrace_core``."""

    kind: str
    key: Key
    trace_id: int
    parent_span_id: int
    command: str | None
    began: int
    ended: int
    status: int
    size_bytes: int


class Times(NamedTuple):
    """Times in microseconds since the Unix epoch; 0 for steps that did not happen before the answer."""

    began: int
    issued: int
    written: int
    synced: int
    ended: int


class PartitionRecord(NamedTuple):
    """The same request at its partition."""

    kind: str
    key: Key
    shard: int
    place: tuple[int, int, int]
    is_append: bool
    times: tuple[int, int, int, int, int]
    is_fulfilled: bool
    messages_count: int


class NativeTraces:
    """Periodically converts records to spans."""

    def __init__(self, take: Callable[[], Sequence[tuple[Any, ...]]], tracing: Tracing) -> None:
        """Create the converter.

        Args:
            take: Returns the records since the last call.
            tracing: Receives the spans.
        """
        self._take = take
        self._tracing = tracing
        self._partitions: OrderedDict[Key, PartitionRecord] = OrderedDict()

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            self.export()

    def export(self) -> None:
        """Convert the records since the last call."""
        requests = []
        for record in self._take():
            if record[0] == "request":
                requests.append(RequestRecord(*record))
            else:
                found = PartitionRecord(*record)
                self._partitions[found.key] = found
        for request in requests:
            self._export(request, self._partitions.pop(request.key, None))
        while len(self._partitions) > _PARTITIONS_MAX:
            self._partitions.popitem(last=False)

    def _export(self, request: RequestRecord, partition: PartitionRecord | None) -> None:
        attributes: dict[str, str | int] = {"headrace.shard": request.key[0], "headrace.status": request.status}
        if request.size_bytes:
            attributes["headrace.request_bytes"] = request.size_bytes
        parent = self._tracing.past(
            request.command or "unknown command",
            TraceContext(request.trace_id, request.parent_span_id),
            request.began,
            request.ended,
            attributes,
            failure=_name_of(request.status),
        )
        if partition is not None:
            self._export_partition(parent, partition, request.ended)

    def _export_partition(self, parent: TraceContext, partition: PartitionRecord, answered: int) -> None:
        stream_id, topic_id, partition_id = partition.place
        times = Times(*partition.times)
        work = self._tracing.past(
            "append" if partition.is_append else "partition",
            parent,
            times.began,
            times.ended,
            {
                "headrace.shard": partition.shard,
                "headrace.stream_id": stream_id,
                "headrace.topic_id": topic_id,
                "headrace.partition_id": partition_id,
                "messaging.batch.message_count": partition.messages_count,
            },
            failure="" if partition.is_fulfilled else "refused",
        )
        if times.issued and times.written:
            self._tracing.past("write", work, times.issued, times.written, {})
        if times.written and times.synced:
            self._tracing.past("sync", work, times.written, times.synced, {})
        self._tracing.past("answer", parent, times.ended, answered, {})


def _name_of(status: int) -> str:
    if status == Status.OK:
        return ""
    return Status(status).name.lower() if find(status) is not None else f"status {status}"
