"""The loop of a task: a range of one partition, from the node that has it, as record batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import grpc
import pyarrow as pa
import xxhash

from headrace_proto.partition.v1 import PartitionOffsets
from pyspark_headrace.errors import AlteredError, DataLossError, IncompleteError, StalledError
from pyspark_headrace.holder import Holder
from pyspark_headrace.node import chunk
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.readahead import ReadAhead
from pyspark_headrace.records import Records
from pyspark_headrace.retrying import Attempts
from pyspark_headrace.splits import Split

_log: Final = logging.getLogger(__name__)


def read_range(split: Split, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the messages of a task, each once and in their order.

    When it ends all of them were there: with ``failOnDataLoss`` every offset, otherwise those that are left.

    Args:
        split: The task.
        options: How it is read.
        schema: Of the batches.

    Raises:
        AlteredError: What has arrived is not what the node has sent.
        DataLossError: Messages are not there any more, or not those that the task was planned for.
        IncompleteError: A node sends something else than was asked for, again and again.
        ServerRefusedError: A node does not let this task read.
        UnreachableError: Nobody answers.
    """
    if split.start >= split.end:
        return
    holder = Holder(split, options)
    records = Records(split, options, schema)
    attempts = Attempts(options)
    while not records.is_complete:
        before = records.next_offset
        try:
            yield from _read(holder, records, options)
        except grpc.RpcError as error:
            _count(before, records, attempts)
            holder.failed(error, attempts)
        except (StalledError, IncompleteError) as error:
            _count(before, records, attempts)
            if not attempts.again():
                raise
            _log.info("%s: %s; trying again from %s", split.title, error, records.next_offset)
        if not records.is_complete:
            # What was cut off comes again, unless it is not there any more.
            bounds = _same(holder, split)
            yield from records.begins_at(bounds.first_offset)
            records.end_at_most(bounds.next_offset)
    yield from records.rest()
    # After a purge offsets begin anew: what was read is what was planned if there was none until now.
    _same(holder, split)


def _read(holder: Holder, records: Records, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    call = holder.fetch(records.next_offset)
    arrived = xxhash.xxh3_64() if options.verify_checksums else None
    with ReadAhead(call, ahead=options.prefetch_chunks, timeout_seconds=options.fetch_timeout_ms / 1000) as responses:
        for response in responses:
            piece = chunk(response)
            if arrived is not None:
                # Messages have checksums of their own; this one, at a hundredth of the cost, is of all together.
                arrived.update(piece.polled)
                if piece.digest and piece.digest != arrived.intdigest():
                    raise AlteredError(f"{records.title}: the node's digest of what it has sent is another one")
            yield from records.add(piece)
            if piece.is_last:
                if not records.is_complete:
                    raise IncompleteError(f"the node says that all was sent at {records.next_offset}")
                return
    raise IncompleteError(f"the node has ended the call at {records.next_offset}")


def _count(before: int, records: Records, attempts: Attempts) -> None:
    if records.next_offset > before:
        attempts.progressed()


def _same(holder: Holder, split: Split) -> PartitionOffsets:
    bounds = holder.bounds()
    if (bounds.incarnation, bounds.purge_epoch) != (split.incarnation, split.purge_epoch):
        raise DataLossError(f"{split.title}: the topic was purged or made anew since the task was planned")
    return bounds
