"""Read loop of a task: fetch a range of one partition from its leader, as record batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import grpc
import pyarrow as pa
import xxhash

from headrace_proto.partition.v1 import PartitionOffsets
from pyspark_headrace.cluster.description import cut_since, openings_of_wire
from pyspark_headrace.cluster.node import chunk
from pyspark_headrace.cluster.readahead import ReadAhead
from pyspark_headrace.cluster.retrying import Attempts
from pyspark_headrace.errors import AlteredError, DataLossError, IncompleteError, StalledError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.leader import Holder
from pyspark_headrace.read.records import Records
from pyspark_headrace.read.splits import Split

_log: Final = logging.getLogger(__name__)


def read_range(split: Split, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the messages of a task, each once and in order.

    On return, all messages have been yielded: with ``failOnDataLoss`` every offset, otherwise the remaining ones.

    Args:
        split: The task.
        options: Options of the source.
        schema: Schema of the batches.

    Raises:
        AlteredError: Received data differ from what the node sent.
        DataLossError: Messages are missing, or belong to another generation than the task was planned for.
        IncompleteError: A node repeatedly sends something other than the requested range.
        ServerRefusedError: A node does not let this task read.
        UnreachableError: No server answers.
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
            # A truncated response is fetched again, unless retention has removed its messages.
            bounds = _same(holder, split)
            yield from records.begins_at(bounds.first_offset)
            records.end_at_most(bounds.next_offset)
    yield from records.rest()
    # A purge restarts offsets at 0. If the generation is still the planned one, and the log was not cut, all messages
    # read belong to the plan.
    bounds = _same(holder, split)
    cut = cut_since(openings_of_wire(bounds.openings), split.epoch, split.end)
    if cut is not None:
        what = f"{split.title}: the log was cut at {cut} since the task was planned, and others have the offsets"
        if options.fail_on_data_loss:
            raise DataLossError(f"{what}. failOnDataLoss = false goes on with what is left")
        _log.warning("%s; going on with what is left", what)


def _read(holder: Holder, records: Records, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    call = holder.fetch(records.next_offset)
    arrived = xxhash.xxh3_64() if options.verify_checksums else None
    with ReadAhead(call, ahead=options.prefetch_chunks, timeout_seconds=options.fetch_timeout_ms / 1000) as responses:
        for response in responses:
            piece = chunk(response)
            if arrived is not None:
                # Messages have checksums of their own. This digest covers all of them together, at a hundredth of the
                # cost.
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
        raise DataLossError(f"{split.title}: the topic was purged or created again since the task was planned")
    return bounds
