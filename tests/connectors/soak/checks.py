"""Checks of what has to be true at the end of a run."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from headrace_connectors.contract import stable_id
from headrace_connectors.sinks.parquet.partition import PartitionFiles
from headrace_connectors.sources.postgres.changes import parse_lsn

_UNROUTED_MAX = 2
"""Number of changes of a transaction that are in no topic, as those of the table that counts."""


_SNAPSHOT = "0/0"
"""Position before those of all changes."""


class _Payload(msgspec.Struct):
    lsn: str | None


class Message(NamedTuple):
    """A message of a topic."""

    id: int
    payload: bytes


class Topics:
    """Messages of all topics.

    Args:
        slot: Slot of the source, which is a part of the ids.
    """

    def __init__(self, slot: str) -> None:
        self._slot = slot
        self._messages: dict[str, list[tuple[int, str]]] = {}
        self._sizes: Counter[str] = Counter()
        """Number of messages of each transaction."""
        self._ids: set[int] = set()
        self.count = 0

    def add(self, topic: str, messages: list[Message]) -> None:
        """Add the messages of a topic."""
        decoder = msgspec.json.Decoder(_Payload)
        read = [(one.id, decoder.decode(one.payload).lsn or _SNAPSHOT) for one in messages]
        self._messages[topic] = read
        self.count += len(read)
        for id_, lsn in read:
            if id_ not in self._ids:
                self._ids.add(id_)
                self._sizes[lsn] += 1

    @property
    def repeated(self) -> int:
        """Number of messages that another one has the id of."""
        return self.count - len(self._ids)

    def problems(self, changes_count: int | None, *, is_exact: bool) -> list[str]:
        """Return what is wrong.

        Args:
            changes_count: Number of changes that were committed; None: some of them are in a snapshot.
            is_exact: Repeated messages are wrong, too.
        """
        found = []
        if changes_count is not None and len(self._ids) != changes_count:
            found.append(f"{len(self._ids)} different messages in topics, of {changes_count} changes")
        if is_exact and self.repeated:
            found.append(f"{self.repeated} messages are repeated")
        numbers = {
            stable_id(self._slot, lsn, number): number
            for lsn, size in self._sizes.items()
            if lsn != _SNAPSHOT
            for number in range(size + _UNROUTED_MAX)
        }
        for topic, messages in self._messages.items():
            # A message that is stored again is as good as the first one.
            once = dict(messages)
            places = [
                (parse_lsn(lsn), place if lsn == _SNAPSHOT else numbers.get(id_, -1))
                for place, (id_, lsn) in enumerate(once.items())
            ]
            if any(number < 0 for _, number in places):
                found.append(f"{topic}: messages have ids that no change has")
            elif late := sum(later <= earlier for earlier, later in itertools.pairwise(places)):
                found.append(f"{topic}: {late} messages come before earlier changes")
        return found


def files_problem(directory: Path, payloads: list[bytes]) -> str | None:
    """Return in what way the files of a topic differ from its messages."""
    rows: list[tuple[int, str]] = []
    for path in PartitionFiles(directory, "zstd").paths():
        found = pq.read_table(path, partitioning=None)
        rows += zip(found.column("_offset").to_pylist(), found.column("payload").to_pylist(), strict=True)
    rows.sort()
    if [offset for offset, _ in rows] != list(range(len(payloads))):
        return f"files have {len(rows)} rows, of {len(payloads)} messages"
    if any(text.encode() != payload for (_, text), payload in zip(rows, payloads, strict=True)):
        return "files have other payloads than the topic"
    return None


def copy_problem(source: list[tuple[Any, ...]], copy: list[tuple[Any, ...]]) -> str | None:
    """Return in what way the rows of a table differ from those of its copy."""
    if source == copy:
        return None
    differing = {row[0] for row in set(source) ^ set(copy)}
    return f"{len(copy)} rows in the copy, {len(source)} at the source, {len(differing)} keys differ"
