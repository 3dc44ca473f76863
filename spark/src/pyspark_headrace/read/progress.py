"""Progress of a stream: offsets of the next micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyspark_headrace.cluster.description import Description, Key, cut_since
from pyspark_headrace.errors import DataLossError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.admission import shared_out
from pyspark_headrace.read.offsets import Offsets

_log: Final = logging.getLogger(__name__)


def backlog(start: Offsets, ends: Mapping[Key, int]) -> dict[Key, int]:
    """Number of unread messages in each partition."""
    return {key: max(end - start.at(key), 0) for key, end in ends.items()}


def admitted(start: Offsets, ends: Mapping[Key, int], described: Description, options: ReadOptions) -> dict[Key, int]:
    """Return the end of the next micro-batch in each partition, within the limits on messages and bytes.

    The end is never before the start. If any message is available, at least one is admitted.
    """
    counts = backlog(start, ends)
    if options.max_offsets_per_trigger is not None:
        counts = shared_out(options.max_offsets_per_trigger, counts)
    if options.max_bytes_per_trigger is not None:
        sizes = {key: _size(described, key) for key in counts}
        shares = shared_out(
            options.max_bytes_per_trigger, {key: round(count * sizes[key]) for key, count in counts.items()}
        )
        counts = {
            key: min(count, max(int(shares.get(key, 0) / sizes[key]), 1)) for key, count in counts.items() if count
        }
    return {key: start.at(key) + counts.get(key, 0) for key in ends}


def followed(start: Offsets, described: Description, options: ReadOptions) -> Offsets:
    """Map the position of a stream to the partitions that exist now.

    A topic that joins the stream begins at its first message, and a new partition of another topic at 0.

    Raises:
        DataLossError: Unread messages are lost: the topic or partition was deleted, recreated or purged.
    """
    positions: dict[Key, int] = {}
    for key, partition in described.partitions.items():
        is_same = start.generations.get(key, partition.generation) == partition.generation and start.incarnations.get(
            key[0], incarnation_of(described, key[0])
        ) == incarnation_of(described, key[0])
        if key[0] not in start.incarnations:
            # The topic joins the stream: retention has removed messages of it that were never to be read.
            positions[key] = partition.first_offset
        elif not is_same:
            _lost(options, f"topic {key[0]}, partition {key[1]}, was purged or created again")
            positions[key] = partition.first_offset
        elif start.at(key) > partition.next_offset:
            _lost(
                options,
                f"topic {key[0]}, partition {key[1]}, ends at {partition.next_offset}; "
                f"the stream was at {start.at(key)} already",
            )
            positions[key] = partition.next_offset
        elif (cut := cut_since(partition.openings, start.epochs.get(key, 0), start.at(key))) is not None:
            _lost(options, _cut(key, cut, start.at(key)))
            positions[key] = cut
        else:
            positions[key] = start.at(key)
    for name, number in start.next.keys() - positions.keys():
        _lost(options, f"topic {name}, partition {number}, no longer exists, or not among what is read")
    return Offsets.of(start.stream, described, positions)


def needs_noting(start: Offsets, at: Offsets) -> bool:
    """Return whether the checkpoint has to have the position of `followed` before anything is read from there.

    That is so if a log was cut off: new messages take the offsets of the lost ones. Once there are more of them, the
    old position would be one among them, and those before it would be left out. And if a topic has joined the stream: a
    micro-batch that is planned again has to begin where it began, whatever retention has removed since.
    """
    has_joined = not at.incarnations.keys() <= start.incarnations.keys()
    return has_joined or any(
        position < start.at(key) and start.generations.get(key) == at.generations[key]
        for key, position in at.next.items()
    )


def ranges(start: Offsets, end: Offsets, described: Description, options: ReadOptions) -> dict[Key, tuple[int, int]]:
    """Return the ranges of a micro-batch, as far as they still exist.

    Raises:
        DataLossError: Some of the messages are missing.
    """
    found: dict[Key, tuple[int, int]] = {}
    for key, last in end.next.items():
        first = start.at(key) if start.generations.get(key, end.generations[key]) == end.generations[key] else 0
        if first == last:
            continue
        if first > last:
            _lost(options, f"topic {key[0]}, partition {key[1]}: the checkpoint goes from {first} back to {last}")
            continue
        partition = described.partitions.get(key)
        if partition is None or end.generations[key] != partition.generation:
            _lost(options, f"topic {key[0]}, partition {key[1]}, offsets {first} to {last}: gone, or made anew")
            continue
        cut = cut_since(partition.openings, end.epochs.get(key, 0), last)
        if cut is not None:
            _lost(options, _cut(key, cut, last))
        until = partition.next_offset if cut is None else min(cut, partition.next_offset)
        bounded = min(max(first, partition.first_offset), last), min(last, until)
        if key[0] not in start.incarnations:
            # Noted by `needs_noting`: the topic joined the stream at `last`, and nothing before was to be read. Earlier
            # releases read messages in the same micro-batch, from the first one.
            first = bounded[0]
        if bounded != (first, last) and cut is None:
            _lost(
                options,
                f"topic {key[0]}, partition {key[1]}, offsets {first} to {last}: there are those from "
                f"{partition.first_offset} to {partition.next_offset}",
            )
        if bounded[0] < bounded[1]:
            found[key] = bounded
    return found


def incarnation_of(described: Description, name: str) -> str:
    """Incarnation of a topic, as text for offsets."""
    return str(described.topics[name].incarnation)


def _cut(key: Key, cut: int, position: int) -> str:
    return (
        f"topic {key[0]}, partition {key[1]}, was cut at {cut}: the messages from there to {position}, which the "
        "stream had reached, are lost, and others have their offsets"
    )


def _size(described: Description, key: Key) -> float:
    # Assume small messages if the size is unknown: at least one message per partition is read in any case.
    return max(described.partitions[key].bytes_per_message, 1.0)


def _lost(options: ReadOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}. failOnDataLoss = false goes on with what is left")
    _log.warning("%s; going on with what is left", what)
