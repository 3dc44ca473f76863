"""Selection of partitions by the options, with the start and end offsets of a read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pyspark_headrace.cluster.description import Description, Key, Topic
from pyspark_headrace.cluster.gateway import Gateway, is_missing
from pyspark_headrace.errors import DataLossError, OptionError, ServerRefusedError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.options.values import EARLIEST, LATEST, PartitionOffsets

Times = Callable[[Mapping[Key, int]], dict[Key, int]]
"""Function that returns the first offset at or after a timestamp per partition; the end offset if there is none."""

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}


def selected(
    gateway: Gateway, options: ReadOptions, *, with_sizes: bool, tolerates_missing: bool = False
) -> Description:
    """Describe the selected partitions.

    Args:
        gateway: Source of the metadata.
        options: Options with the selection.
        with_sizes: Include sizes in bytes.
        tolerates_missing: Leave out named topics and partitions that do not exist.

    Raises:
        OptionError: A named partition does not exist.
        ServerRefusedError: A named topic does not exist, or the user is not authorized.
        UnreachableError: No server answers.
    """
    if options.subscribe is not None:
        return _named(gateway, options, options.subscribe, with_sizes=with_sizes, tolerates_missing=tolerates_missing)
    if options.subscribe_pattern is not None:
        wanted = re.compile(options.subscribe_pattern)
        described = gateway.describe(options.stream, with_sizes=with_sizes)
        return Description({name: topic for name, topic in described.topics.items() if wanted.fullmatch(name)})
    assigned = options.assign or {}
    described = _named(gateway, options, tuple(assigned), with_sizes=with_sizes, tolerates_missing=tolerates_missing)
    keys = [(name, number) for name, numbers in assigned.items() for number in numbers]
    if not tolerates_missing:
        _check_known(keys, described, "assign")
    return described.only(keys)


def selection_text(options: ReadOptions) -> str:
    """Return the selection as canonical text."""
    if options.subscribe is not None:
        return json.dumps({"subscribe": sorted(options.subscribe)})
    if options.subscribe_pattern is not None:
        return json.dumps({"subscribePattern": options.subscribe_pattern})
    return json.dumps(
        {"assign": {name: list(numbers) for name, numbers in (options.assign or {}).items()}}, sort_keys=True
    )


def depends_on_the_moment(options: ReadOptions) -> bool:
    """Return whether the start offsets of a stream depend on the moment of planning."""
    if options.starting_timestamp is not None or options.starting_offsets_by_timestamp is not None:
        return options.starting_strategy == "latest"
    if isinstance(options.starting_offsets, dict):
        return LATEST in _flat(options.starting_offsets).values()
    return options.starting_offsets != "earliest"


def _named(
    gateway: Gateway, options: ReadOptions, names: Sequence[str], *, with_sizes: bool, tolerates_missing: bool
) -> Description:
    try:
        return gateway.describe(options.stream, names, with_sizes=with_sizes)
    except ServerRefusedError as error:
        if not is_missing(error) or not tolerates_missing:
            raise
    # The server does not report which of the topics is missing.
    left: dict[str, Topic] = {}
    for name in names:
        try:
            left |= gateway.describe(options.stream, (name,), with_sizes=with_sizes).topics
        except ServerRefusedError as error:
            if not is_missing(error):
                raise
    return Description(left)


def starts(options: ReadOptions, described: Description, times: Times, *, otherwise: int) -> dict[Key, int]:
    """Return the start offset of each partition.

    Args:
        options: Options of the source.
        described: Current metadata.
        times: Lookup of offsets by timestamp.
        otherwise: EARLIEST or LATEST, if the options name no start.

    Raises:
        OptionError: An offset is beyond the log, or all messages are older than a timestamp.
        DataLossError: A start offset is below the start of the log.
    """
    positions = _positions(options.starting_offsets, described, "startingOffsets", otherwise)
    wanted = _times(
        options.starting_timestamp, options.starting_offsets_by_timestamp, described, "startingOffsetsByTimestamp"
    )
    found = _found(times, wanted, described)
    result: dict[Key, int] = {}
    for key, partition in described.partitions.items():
        if key in found:
            result[key] = found[key]
            if found[key] >= partition.next_offset and options.starting_strategy == "error":
                raise OptionError(
                    f"{_title(key)} has no message at or after {wanted[key]} microseconds since 1970; "
                    "startingOffsetsByTimestampStrategy = latest begins behind the last one"
                )
            continue
        offset = _resolved(positions[key], partition.first_offset, partition.next_offset, key, "startingOffsets")
        if offset < partition.first_offset:
            if options.fail_on_data_loss:
                raise DataLossError(
                    f"{_title(key)} begins at {partition.first_offset}: "
                    f"what startingOffsets asks for, {offset}, is gone"
                )
            offset = partition.first_offset
        result[key] = offset
    return result


def ends(options: ReadOptions, described: Description, times: Times) -> dict[Key, int]:
    """Return the end offset of each partition for a batch, exclusive.

    Raises:
        OptionError: An offset is not in the log.
    """
    positions = _positions(options.ending_offsets, described, "endingOffsets", LATEST)
    wanted = _times(
        options.ending_timestamp, options.ending_offsets_by_timestamp, described, "endingOffsetsByTimestamp"
    )
    found = _found(times, wanted, described)
    result: dict[Key, int] = {}
    for key, partition in described.partitions.items():
        if key in found:
            result[key] = found[key]
            continue
        offset = _resolved(positions[key], partition.first_offset, partition.next_offset, key, "endingOffsets")
        # A range that was removed as a whole is empty; otherwise it would end before its start.
        result[key] = offset if options.fail_on_data_loss else max(offset, partition.first_offset)
    return result


def _positions(
    asked: PartitionOffsets | str | None, described: Description, name: str, otherwise: int
) -> dict[Key, int]:
    if not isinstance(asked, dict):
        return dict.fromkeys(described.partitions, otherwise if asked is None else _WORDS[asked])
    named = _flat(asked)
    _check_known(named, described, name)
    # An option that names some partitions selects the whole log of the others.
    rest = EARLIEST if name == "startingOffsets" else LATEST
    return {key: named.get(key, rest) for key in described.partitions}


def _times(everywhere: int | None, named: PartitionOffsets | None, described: Description, name: str) -> dict[Key, int]:
    times = {} if everywhere is None else dict.fromkeys(described.partitions, everywhere)
    if named is not None:
        flat = _flat(named)
        _check_known(flat, described, name)
        times |= flat
    return times


def _found(times: Times, wanted: Mapping[Key, int], described: Description) -> dict[Key, int]:
    # The lookup may return offsets later than those in the description.
    offsets = times(wanted) if wanted else {}
    return {key: min(offset, described.partitions[key].next_offset) for key, offset in offsets.items()}


def _resolved(asked: int, first: int, following: int, key: Key, name: str) -> int:
    if asked == EARLIEST:
        return first
    if asked == LATEST:
        return following
    if asked > following:
        raise OptionError(f"option {name}: {_title(key)} ends at {following}, there is no {asked} yet")
    return asked


def _flat(nested: PartitionOffsets) -> dict[Key, int]:
    return {(topic, number): value for topic, parts in nested.items() for number, value in parts.items()}


def _check_known(keys: Iterable[Key], described: Description, name: str) -> None:
    for key in keys:
        if key not in described.partitions:
            raise OptionError(f"option {name} names {_title(key)}, which is not among what is read")


def _title(key: Key) -> str:
    return f"topic {key[0]}, partition {key[1]}"
