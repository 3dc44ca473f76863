"""Node preference of partitions: weighted rendezvous hashing, in integers.

For every partition, every node draws a number by hashing the two; the smallest numbers win. A node that joins or leaves
therefore moves only the partitions that it wins or had won. The draws are distributed exponentially with the number of
the node's shards as rate, so that a node wins partitions in proportion to its shards.

The result is part of the replicated state: it must never change from one release to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace_proto.limits import PARTITIONS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX

_MASK: Final = 2**64 - 1
_FRACTION_BITS: Final = 24
# Exceeds the quotient of any two draws, so that the smallest differences between weights are distinguished.
_SCALE_BITS: Final = 40


def packed_namespace(stream_id: int, topic_id: int, partition_id: int) -> int:
    """Return stream, topic and partition packed into one number of 12, 12 and 20 bits.

    Raises:
        ValueError: One of them does not fit. Packing never wraps.
    """
    fits = 0 <= stream_id < STREAMS_MAX and 0 <= topic_id < TOPICS_PER_STREAM_MAX
    if not (fits and 0 <= partition_id < PARTITIONS_PER_TOPIC_MAX):
        raise ValueError(
            f"stream {stream_id}, topic {topic_id}, partition {partition_id} do not fit 12, 12 and 20 bits"
        )
    return stream_id << 32 | topic_id << 20 | partition_id


def ranked(namespace: int, nodes: Iterable[tuple[int, int]]) -> list[int]:
    """Return the ids of nodes in the order of a partition's preference.

    Args:
        namespace: The packed namespace of the partition.
        nodes: Distinct node ids with their numbers of shards.
    """
    return [node_id for _, node_id in sorted((_draw(namespace, node_id, shards), node_id) for node_id, shards in nodes)]


def _draw(namespace: int, node_id: int, shards: int) -> int:
    # An odd number below 2^65, uniform: the negative logarithm of its fraction of 2^65 is distributed exponentially.
    uniform = _mixed(_mixed(namespace) ^ node_id) << 1 | 1
    return ((65 << _FRACTION_BITS) - _log2(uniform) << _SCALE_BITS) // shards


def _mixed(word: int) -> int:
    """Finalise as in splitmix64: every bit of the result depends on every bit of the word."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def _log2(number: int) -> int:
    """Return the binary logarithm of a positive number, rounded down, computed by repeated squaring."""
    whole = number.bit_length() - 1
    # Mantissa between 1 and 2, with 63 binary places.
    mantissa = number << 63 >> whole
    fraction = 0
    for _ in range(_FRACTION_BITS):
        mantissa = mantissa * mantissa >> 63
        fraction <<= 1
        if mantissa >> 64:
            mantissa >>= 1
            fraction |= 1
    return whole << _FRACTION_BITS | fraction
