"""Bytes and messages of ranges of topics as they lie in the log, counted without looking into them."""

from __future__ import annotations

from typing import Final, NamedTuple

import grpc

from pyspark_headrace.errors import DataLossError, IncompleteError, StalledError
from pyspark_headrace.holder import Holder
from pyspark_headrace.node import chunk
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.readahead import ReadAhead
from pyspark_headrace.retrying import Attempts
from pyspark_headrace.splits import Split

_HEADER_BYTES: Final = 16
"""Before the messages of a response: partition, an offset, and at this place their number."""
_COUNT_AT: Final = slice(12, 16)


class Measured(NamedTuple):
    """What was there of a range."""

    messages: int
    """Fewer than it is long where retention was quicker."""
    bytes: int
    """That they take in the log, with the header of each."""


def measure(split: Split, options: ReadOptions) -> Measured:
    """Count a range.

    Raises:
        DataLossError: The topic was purged or made anew.
        IncompleteError: A node sends something else than was asked for, again and again.
        ServerRefusedError: A node does not let this task read.
        UnreachableError: Nobody answers.
    """
    holder = Holder(split, options)
    attempts = Attempts(options)
    following = split.start
    messages = size = 0
    while following < split.end:
        try:
            call = holder.fetch(following)
            with ReadAhead(
                call, ahead=options.prefetch_chunks, timeout_seconds=options.fetch_timeout_ms / 1000
            ) as responses:
                for response in responses:
                    piece = chunk(response)
                    if piece.polled:
                        messages += int.from_bytes(piece.polled[_COUNT_AT], "little")
                        size += len(piece.polled) - _HEADER_BYTES
                    if piece.next_offset > following:
                        attempts.progressed()
                    following = max(following, piece.next_offset)
                    if piece.is_last:
                        break
            if following < split.end:
                raise IncompleteError(f"{split.title}: the node has ended at {following}")
        except grpc.RpcError as error:
            holder.failed(error, attempts)
        except (StalledError, IncompleteError):
            if not attempts.again():
                raise
    now = holder.bounds()
    if (now.incarnation, now.purge_epoch) != (split.incarnation, split.purge_epoch):
        raise DataLossError(f"{split.title}: the topic was purged or made anew while it was counted")
    return Measured(messages, size)
