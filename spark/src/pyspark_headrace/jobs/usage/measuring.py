"""Number and size of messages in ranges of a topic, without decoding them."""

from __future__ import annotations

from typing import Final, NamedTuple

import grpc

from pyspark_headrace.cluster.node import chunk
from pyspark_headrace.cluster.readahead import ReadAhead
from pyspark_headrace.cluster.retrying import Attempts
from pyspark_headrace.errors import DataLossError, IncompleteError, StalledError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.leader import Holder
from pyspark_headrace.read.splits import Split

_HEADER_BYTES: Final = 16
"""Size of the poll response header: partition, an offset, and the number of messages."""
_COUNT_AT: Final = slice(12, 16)


class Measured(NamedTuple):
    """Messages found in a range."""

    messages: int
    """Number of messages: less than the length of the range if retention has removed some."""
    bytes: int
    """Size in the log, including message headers."""


def measure(split: Split, options: ReadOptions) -> Measured:
    """Measure a range.

    Raises:
        DataLossError: The topic was purged or recreated.
        IncompleteError: A node repeatedly sends something other than the requested range.
        ServerRefusedError: A node does not let this task read.
        UnreachableError: No server answers.
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
                        holder.progressed()
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
        raise DataLossError(f"{split.title}: the topic was purged or created again while it was counted")
    return Measured(messages, size)
