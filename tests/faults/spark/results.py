"""Check of topics and files at the end: each input message exists once in both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from headrace_core import Client
from tests.faults.spark.producers import Producer
from tests.server_process import PASSWORD, USERNAME

_PAGE: Final = 10_000
_EXAMPLES: Final = 5

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Verdict:
    """Results of a run and the violations found."""

    seed: int
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    victims: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    kills_within: int = 0
    """Number of kills during a micro-batch of at least one query."""
    driver_starts: int = 0
    driver_ends: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Reasons of query failures after which the driver has restarted the query."""
    shuffles: Counter[str] = field(default_factory=Counter)
    batches: dict[str, int] = field(default_factory=dict)
    """Number of committed micro-batches by query."""
    sent: int = 0
    acknowledged: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    input_rows: int = 0
    file_rows: int = 0
    files: int = 0
    topic_rows: int = 0
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the results as one line of JSON."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(found | {"seconds": round(self.seconds, 1), "passed": not self.problems})

    def report(self) -> str:
        """Return the results as readable text."""
        lines = [
            f"{self.kills.total()} kills, {self.kills_within} of them within a micro-batch: {_counted(self.kills)}",
            f"who died: {_counted(self.victims)}",
            f"when: {_counted(self.moments)}",
            f"{self.driver_starts} drivers, ended by {_counted(self.driver_ends)}; shuffles: {_counted(self.shuffles)}",
            f"queries failed, and were started again by their driver: {self.failures.total()} times",
            *(f"  {count} x {why}" for why, count in self.failures.most_common()),
            f"micro-batches: {_counted(Counter(self.batches))}",
            f"messages: {self.sent} sent, {self.acknowledged} acknowledged; refused: {_counted(self.refusals)}",
            f"input {self.input_rows}, Parquet {self.file_rows} in {self.files} files, topic {self.topic_rows}",
            *(f"WRONG: {problem}" for problem in self.problems),
        ]
        return "\n".join(lines)


def read_topic(address: str, stream: str, topic: str) -> dict[Place, bytes]:
    """Read every readable message; offsets are dense."""
    client = Client.connect(address)
    client.login(USERNAME, PASSWORD)
    found: dict[Place, bytes] = {}
    described = client.topic(stream, topic)
    assert described is not None, f"{stream}/{topic} is not there"
    for partition in range(len(described.partitions)):
        offset = 0
        while messages := client.poll(stream, topic, partition, strategy="offset", value=offset, count=_PAGE).messages:
            assert [message.offset for message in messages] == list(range(offset, offset + len(messages)))
            found.update({(partition, message.offset): message.payload for message in messages})
            offset += len(messages)
    client.close()
    return found


def committed_files(directory: Path) -> list[Path]:
    """Return the files in the log of Spark's sink, as any reader of that directory sees them."""
    log = directory / "_spark_metadata"
    compacted = max((int(entry.stem) for entry in log.glob("*.compact")), default=-1)
    later = sorted(int(entry.name) for entry in log.iterdir() if entry.name.isdigit() and int(entry.name) > compacted)
    names = [f"{compacted}.compact"] if compacted >= 0 else []
    found: dict[str, None] = {}
    for name in (*names, *map(str, later)):
        for line in (log / name).read_text(encoding="utf-8").splitlines()[1:]:
            entry = json.loads(line)
            if entry["action"] == "add":
                assert entry["path"] not in found, f"{entry['path']} stands twice in the log of the sink"
                found[entry["path"]] = None
            else:
                found.pop(entry["path"], None)
    return [Path(unquote(urlparse(path).path)) for path in found]


def read_files(files: Sequence[Path]) -> list[tuple[Place, bytes]]:
    """Return the rows of these files."""
    rows: list[tuple[Place, bytes]] = []
    for file in files:
        table = pq.read_table(file)
        columns = (table.column(name).to_pylist() for name in ("partition", "offset", "value"))
        rows += [((partition, offset), value) for partition, offset, value in zip(*columns, strict=True)]
    return rows


def judge_input(messages: dict[Place, bytes], producers: Sequence[Producer], verdict: Verdict) -> None:
    """Check that acknowledged messages exist and that none exists twice."""
    counted = Counter(_identity(value) for value in messages.values())
    promised = {
        (producer.number, number) for producer in producers for batch in producer.acknowledged for number in batch
    }
    _compare("the input", dict.fromkeys(counted, 1), counted, verdict)
    lost = sorted(promised - counted.keys())
    if lost:
        verdict.problems.append(f"{len(lost)} acknowledged messages are not in the input: {lost[:_EXAMPLES]}")
    verdict.input_rows = counted.total()
    verdict.sent = sum(producer.sent for producer in producers)
    verdict.acknowledged = len(promised)
    verdict.refusals = sum((producer.refusals for producer in producers), Counter())


def judge_files(messages: dict[Place, bytes], rows: Sequence[tuple[Place, bytes]], verdict: Verdict) -> None:
    """Check that the rows contain each place once, with its message."""
    verdict.file_rows = len(rows)
    _compare("Parquet", Counter(messages.items()), Counter(rows), verdict)


def judge_topic(messages: dict[Place, bytes], written: dict[Place, bytes], verdict: Verdict) -> None:
    """Check that the output topic has the same messages in any order."""
    verdict.topic_rows = len(written)
    _compare("the topic", Counter(messages.values()), Counter(written.values()), verdict)


def _compare(what: str, expected: Counter[Any] | dict[Any, int], found: Counter[Any], verdict: Verdict) -> None:
    missing = Counter(expected) - found
    too_many = found - Counter(expected)
    if missing:
        verdict.problems.append(f"{what} lacks {missing.total()}: {sorted(missing)[:_EXAMPLES]}")
    if too_many:
        verdict.problems.append(f"{what} has {too_many.total()} too many: {sorted(too_many.items())[:_EXAMPLES]}")


def _identity(value: bytes) -> tuple[int, int]:
    producer, number, _ = value.split(b" ", 2)
    return int(producer), int(number)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"
