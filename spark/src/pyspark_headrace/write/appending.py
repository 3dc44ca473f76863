"""Append the rows of a task to partitions, at least once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.write.appender import Appender
from pyspark_headrace.write.packing import Counted, Packed, pack
from pyspark_headrace.write.target import Targets


def append(rows: Iterator[pa.RecordBatch], targets: Targets, options: WriteOptions, *, task: int) -> Counted:
    """Append rows. On return, all of them are as durable as their topics promise.

    Args:
        rows: Rows of one task.
        targets: Topics to append to.
        options: Options of the sink.
        task: Number of the task.

    Raises:
        RowRefusedError: A row cannot be a message.
        ServerRefusedError: A node does not let this task write.
        UnreachableError: No server answers.
    """
    sending = _Sending(targets, options)
    try:
        for batch in pack(rows, targets, options, task=task):
            sending.send(batch)
        sending.finish()
    finally:
        sending.close()
    return sending.counted


class _Sending:
    """Appenders of one task. The number of unacknowledged batches over all partitions is limited by ``maxInFlight``."""

    def __init__(self, targets: Targets, options: WriteOptions) -> None:
        self._targets = targets
        self._options = options
        self._appenders: dict[tuple[str, int], Appender] = {}
        self._in_flight: deque[Appender] = deque()
        self.counted = Counted()

    def send(self, packed: Packed) -> None:
        topic, batch = packed
        while len(self._in_flight) >= self._options.max_in_flight:
            self._in_flight.popleft().take_answer()
        appender = self._appenders.get((topic, batch.partition))
        if appender is None:
            appender = Appender(self._targets[topic], batch.partition, self._options)
            self._appenders[topic, batch.partition] = appender
        appender.send(batch.messages_count, batch.batch)
        self._in_flight.append(appender)
        self.counted.add(batch)

    def finish(self) -> None:
        while self._in_flight:
            self._in_flight.popleft().take_answer()

    def close(self) -> None:
        for appender in self._appenders.values():
            appender.close()
