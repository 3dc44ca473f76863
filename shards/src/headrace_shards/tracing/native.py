"""What the native side recorded about traced requests, as spans.

A request leaves two records: one where its connection is, one at its partition, which comes no later. Together they say
when it was started, when its messages reached the partition, when they were written and synced, and when it was
answered.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from headrace_proto.errors import Status, find
from headrace_proto.trace_context import TraceContext
from headrace_shards.tracing.spans import Tracing

Key = tuple[int, int]

_INTERVAL_SECONDS: Final = 0.5
# Of requests whose other record was dropped, or which have never been answered.
_PARTITIONS_MAX: Final = 16_384


class RequestRecord(NamedTuple):
    """A request at its connection; as ``headrace_core.pyi`` has it."""

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
    """Microseconds since the Unix epoch; 0 for what did not happen before the answer."""

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
    """Takes records now and then, and makes spans of them."""

    def __init__(self, take: Callable[[], Sequence[tuple[Any, ...]]], tracing: Tracing) -> None:
        """Take nothing yet.

        Args:
            take: Returns the records since the last call.
            tracing: Takes the spans.
        """
        self._take = take
        self._tracing = tracing
        self._partitions: OrderedDict[Key, PartitionRecord] = OrderedDict()

    async def run(self) -> NoReturn:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            self.export()

    def export(self) -> None:
        """Make spans of what there is."""
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
