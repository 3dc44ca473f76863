"""SPK-3: components of a backfill without servers: plan, messages, tasks, rate limit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import described
import pyarrow as pa
import pytest

from pyspark_headrace.jobs.backfill import running
from pyspark_headrace.jobs.backfill.messages import EncryptedHeadersError, Rewriting, with_origin
from pyspark_headrace.jobs.backfill.pace import Pace
from pyspark_headrace.jobs.backfill.plan import Plan, PlanError, batches_of
from pyspark_headrace.jobs.backfill.running import Runner
from pyspark_headrace.jobs.backfill.tasks import loads_of, whole_partitions
from pyspark_headrace.jobs.origins.pieces import KINDS, Extent, schema_of
from pyspark_headrace.options.writing import WriteOptions, write_options
from pyspark_headrace.write.target import Target

OURS = ("x-replay-source", "x-replay-offset", "x-replay-job")


@dataclass(frozen=True)
class Piece:
    partition_id: int
    start: int
    end: int
    size_bytes: int


def test_batches_are_the_whole_each_message_once() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(50):
        extents = {}
        for number in range(chance.randrange(1, 8)):
            start = chance.choice([0, 5, 2**40])
            extents[number] = Extent(start, start + chance.choice([1, 2, 17, 1000, 99_999]), f"{number}.0", 10**12)
        most = chance.choice([1000, 7777, 10**9])
        count = batches_of(extents, messages=most, size_bytes=1 << 62)
        plan = Plan(f"x/{count}", {"name": "a"}, "topic:shop/a", 17, extents, count)
        assert Plan.from_bytes(plan.to_bytes()) == plan
        ends = {number: extent.start for number, extent in extents.items()}
        for number in range(1, count + 1):
            batch = plan.batch(number)
            # The share of each partition is rounded.
            assert sum(extent.count for extent in batch.values()) <= most + len(extents), f"seed {seed}"
            for partition, extent in batch.items():
                assert extent.start == ends[partition], f"seed {seed}"
                assert extent.generation == extents[partition].generation
                ends[partition] = extent.end
        assert ends == {number: extent.end for number, extent in extents.items()}, f"seed {seed}"
    assert batches_of({}, messages=1, size_bytes=1) == 0
    assert batches_of({0: Extent(0, 10, "", 1000)}, messages=100, size_bytes=100) == 10


@pytest.mark.parametrize("kept", [b"", b"{}", b"[]", b'{"v":2}', b'{"v":1,"extents":[[0]]}'])
def test_what_is_no_plan(kept: bytes) -> None:
    with pytest.raises(PlanError):
        Plan.from_bytes(kept)


def test_headers_are_kept_and_ours_added() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(100):
        rows = [
            [
                (chance.choice(["a", "b", "ä", *OURS]), chance.randbytes(chance.randrange(4)))
                for _ in range(chance.choice([0, 0, 1, 3]))
            ]
            for _ in range(chance.randrange(0, 9))
        ]
        # Slices, like the batches of a file.
        first = chance.randrange(len(rows) + 1)
        headers = pa.array([[{"key": key, "value": value} for key, value in row] for row in rows], KINDS["headers"])
        offsets = pa.array(range(2**40, 2**40 + len(rows)), pa.int64())
        found = with_origin(headers[first:], offsets[first:], "topic:shop/a/3", "again")
        wanted = [
            [pair for pair in row if pair[0] not in OURS]
            + [
                ("x-replay-source", b"topic:shop/a/3"),
                ("x-replay-offset", b"%d" % (2**40 + number)),
                ("x-replay-job", b"again"),
            ]
            for number, row in enumerate(rows)
        ][first:]
        assert [[(pair["key"], pair["value"]) for pair in row] for row in found.to_pylist()] == wanted, f"seed {seed}"
        without = with_origin(None, offsets[first:], "topic:shop/a/3", "again").to_pylist()
        assert [[pair["value"] for pair in row] for row in without] == [
            [pair[1] for pair in row[-3:]] for row in wanted
        ]


def test_headers_that_cannot_be_read_are_not_lost() -> None:
    schema = schema_of(["offset", "value", "headers"])
    batch = pa.RecordBatch.from_pydict({"offset": [7, 8, 9], "value": [b"v"] * 3, "headers": [[], None, []]}, schema)
    with pytest.raises(EncryptedHeadersError, match="topic:shop/a/3, offset 8: the headers cannot be read"):
        Rewriting("topic:shop/a", "again", frozenset({"headers"}), same_partition=True).apply(batch, 3)
    found = Rewriting("topic:shop/a", "again", frozenset(), same_partition=False).apply(batch, 3)
    assert found.schema.names == ["value", "headers"]


def test_tasks_have_enough_to_do_and_are_not_too_many() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(200):
        pieces = [
            Piece(partition, at, at + chance.randrange(1, 1000), chance.randrange(100_000))
            for partition in range(chance.randrange(1, 9))
            for at in range(0, chance.randrange(1, 9) * 1000, 1000)
        ]
        most = chance.choice([2, 3, 10, 1000])
        loads = loads_of(pieces, rows=1500, size_bytes=150_000, most=most)
        assert [piece for load in loads for piece in load] == pieces, f"seed {seed}"
        assert 0 < len(loads) <= most, f"seed {seed}"
        for load in loads[:-1]:
            rows = sum(piece.end - piece.start for piece in load)
            assert rows >= 1500 or sum(piece.size_bytes for piece in load) >= 150_000, f"seed {seed}"
        together = whole_partitions(pieces)
        assert [piece for load in together for piece in load] == pieces
        assert len({load[0].partition_id for load in together}) == len(together)
    assert loads_of([], rows=1, size_bytes=1, most=2) == whole_partitions([]) == []


@pytest.mark.parametrize(("first_seconds", "slow_seconds"), [(0.2, 0.0), (3.0, 0.0), (0.2, 2.5)])
def test_the_pace(first_seconds: float, slow_seconds: float) -> None:
    """Check batches of one second: a slow first batch is not compensated, a slow later one is."""
    now = 100.0
    pace = Pace(1000, kept_seconds=5, clock=lambda: now)
    published = []
    for number in range(20):
        pace.begin()
        now += first_seconds if number == 0 else slow_seconds if number == 5 else 0.1
        now += pace.take(1000)
        published.append(now)
    assert published[0] == pytest.approx(100 + max(first_seconds, 1))
    assert published[-1] - published[0] == pytest.approx(19)


def test_a_long_stop_is_no_reason_for_a_flood() -> None:
    now = 0.0
    pace = Pace(1000, kept_seconds=5, clock=lambda: now)
    assert pace.take(1000) == 1
    now = 1000.0
    waits = [pace.take(1000) for _ in range(8)]
    assert waits == [0, 0, 0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(("lifetime_seconds", "reused_seconds"), [(60.0, 30.0), (86_400.0, 300.0)])
def test_a_ticket_is_replaced_before_it_ends(
    monkeypatch: pytest.MonkeyPatch, lifetime_seconds: float, reused_seconds: float
) -> None:
    now = 1000.0
    issued = 0

    def find(options: WriteOptions, name: str) -> Target:
        nonlocal issued
        issued += 1
        there = described.topic(name, described.partition(0, 0, 0), incarnation=17)
        return Target(there, f"ticket {issued}", lifetime_seconds)

    monkeypatch.setattr(running, "find", find)
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: now))
    options = write_options({"servers": "a:8094", "stream": "shop", "topic": "b"})
    config: Any = SimpleNamespace(rate=None, to_topic="b")
    unused: Any = None
    runner = Runner(unused, config, unused, options, unused)
    plan = Plan("x", {}, "topic:shop/a", 17, {}, 1)
    for seconds, ticket in ((0.0, "ticket 1"), (0.9, "ticket 1"), (0.2, "ticket 2"), (0.9, "ticket 2")):
        now += seconds * reused_seconds
        assert runner._target(plan).ticket == ticket
