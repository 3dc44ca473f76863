"""Micro-batches that are written one by one, each once: for what Spark does not let a sink in Python do."""

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
        made: Makes messages of one of its micro-batches.
        options: Of the data source, with a `transactionalId`.
    """
    exactly = {**options, "guarantee": "exactly-once"}

    def write(batch: DataFrame, batch_id: int) -> None:
        writer = made(batch).write.format("headrace").mode("append")
        writer.options(**exactly, batchId=str(batch_id)).save()

    return frame.writeStream.foreachBatch(write)


def in_order(messages: DataFrame) -> DataFrame:
    """Have one task write what one partition had, in its order: messages with one key stay in theirs.

    Args:
        messages: Of a batch or a micro-batch, with a column `_message`, after Spark has shuffled them.
    """
    return messages.repartition("_message.topic", "_message.partition").sortWithinPartitions("_message.offset")
