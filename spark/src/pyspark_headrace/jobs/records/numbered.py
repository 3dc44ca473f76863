"""Micro-batches written as numbered batches, exactly once, for output modes that Python sinks do not support."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def numbered(frame: DataFrame, made: Callable[[DataFrame], DataFrame], options: Mapping[str, str]) -> DataStreamWriter:
    """Write micro-batches as numbered batches.

    Args:
        frame: A stream.
        made: Conversion of a micro-batch to messages.
        options: Options of the data source, with a `transactionalId`.
    """
    exactly = {**options, "guarantee": "exactly-once"}

    def write(batch: DataFrame, batch_id: int) -> None:
        writer = made(batch).write.format("headrace").mode("append")
        writer.options(**exactly, batchId=str(batch_id)).save()

    return frame.writeStream.foreachBatch(write)


def in_order(messages: DataFrame) -> DataFrame:
    """Repartition by original partition and sort, so that messages with one key keep their order.

    Args:
        messages: Messages of a batch or a micro-batch, with a column `_message`, after a shuffle.
    """
    return messages.repartition("_message.topic", "_message.partition").sortWithinPartitions("_message.offset")
