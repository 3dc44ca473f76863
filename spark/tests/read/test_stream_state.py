"""SPK-1: decisions of a stream between micro-batches, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest
from described import described, partition, topic

from headrace_proto.errors import Status
from pyspark_headrace.cluster.description import Description, Key, Partition, Topic
from pyspark_headrace.cluster.gateway import Issued
from pyspark_headrace.cluster.retrying import STATUS_METADATA
from pyspark_headrace.errors import DataLossError, OffsetError, OptionError, UnreachableError
from pyspark_headrace.options.reading import batch_options, stream_options
from pyspark_headrace.read import planning
from pyspark_headrace.read.offsets import Offsets
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.progress import followed, ranges
from pyspark_headrace.read.selection import depends_on_the_moment, ends, starts
from pyspark_headrace.read.stream_state import Following

LEAST = {"servers": "a:8094", "stream": "shop", "subscribe": "orders"}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Gateway:
    """Fake gateway that returns given values and counts requests."""

    def __init__(self, reported: Description) -> None:
        self.reported = reported
        self.asked = 0
        self.pins: dict[str, bytes] = {}
        self.unpinned = 0

    def pin(self, stream: str, reader: str, value: bytes) -> bytes:
        return self.pins.setdefault(reader, value)

    def ticket(self, topic: Topic, access: str) -> Issued:
        return Issued(f"{access} {topic.title}", 3600.0)

    def unpin(self, stream: str, reader: str) -> None:
        self.unpinned += 1
        # Without a pin, a server does nothing.
        self.pins.pop(reader, None)

    def describe(self, stream: str, topics: Sequence[str] = (), *, with_sizes: bool = False) -> Description:
        assert stream == "shop"
        self.asked += 1
        return self.reported


def following(reported: Description, clock: Clock | None = None, **more: str) -> tuple[Following, Gateway]:
    options = stream_options(LEAST | more)
    planner = Planner(options, clock or Clock())
    gateway = Gateway(reported)
    planner._gateway = gateway  # type: ignore[assignment]
    return Following(options, planner), gateway


def test_an_idle_stream_asks_five_times_a_second() -> None:
    """Check pitfall 5.4: Spark requests the latest offset, twice, about 65 times a second."""
    clock = Clock()
    stream, gateway = following(described(topic("orders", partition(0, 0, 5))), clock)
    start = stream.initial()
    gateway.asked = 0
    for _ in range(650):
        assert stream.next(start, is_limited=False) is None
        stream.latest()
        clock.now += 10 / 650
    assert gateway.asked <= 51


def test_the_beginning_is_found_once() -> None:
    """Check pitfall 5.2."""
    clock = Clock()
    stream, gateway = following(described(topic("orders", partition(0, 0, 5))), clock)
    assert stream.initial().at(("orders", 0)) == 5
    gateway.reported = described(topic("orders", partition(0, 0, 50)))
    clock.now += 10
    assert stream.initial().at(("orders", 0)) == 5
    assert stream.next(stream.initial(), is_limited=False) == stream.latest()


def test_the_beginning_outlives_the_driver() -> None:
    """Check pitfall 5.2: until the first confirmation each run starts at the offsets of the first run."""
    first, gateway = following(described(topic("orders", partition(0, 0, 5))), readerId="job")
    assert first.initial().at(("orders", 0)) == 5
    later, other = following(described(topic("orders", partition(0, 0, 50))), readerId="job")
    other.pins = gateway.pins
    assert later.initial() == first.initial()
    elsewhere, third = following(described(topic("orders", partition(0, 0, 50))), readerId="job", subscribe="orders,x")
    third.pins = gateway.pins
    with pytest.raises(OptionError, match=r"readerId: job began to read .*; another query needs another name"):
        elsewhere.initial()
    later.confirm()
    later.confirm()
    assert gateway.pins == {}
    assert other.unpinned == 1


def test_the_next_run_confirms_the_only_micro_batch() -> None:
    """Check that no pin stays: Spark confirms one micro-batch late, and a run with a checkpoint pins none."""
    first, gateway = following(described(topic("orders", partition(0, 0, 5))), readerId="job")
    first.initial()
    assert list(gateway.pins) == ["job"]
    later, other = following(described(topic("orders", partition(0, 0, 50))), readerId="job")
    other.pins = gateway.pins
    later.confirm()
    assert gateway.pins == {}
    unnamed, third = following(described(topic("orders", partition(0, 0, 5))))
    unnamed.initial()
    unnamed.confirm()
    assert third.unpinned == 0


@pytest.mark.parametrize(
    ("options", "does_depend"),
    [
        ({}, True),
        ({"startingOffsets": "latest"}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"orders": {"0": 5}}'}, False),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, True),
        ({"startingTimestamp": "1"}, False),
        ({"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_what_needs_to_be_kept(options: dict[str, str], does_depend: bool) -> None:
    assert depends_on_the_moment(stream_options(LEAST | options)) is does_depend


def test_what_is_new_stays_within_limits() -> None:
    clock = Clock()
    reported = described(topic("orders", partition(0, 0, 90), partition(1, 0, 10), partition(2, 0, 0)))
    stream, gateway = following(reported, clock, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    first = stream.next(stream.initial(), is_limited=True)
    assert first is not None
    assert [first.at(("orders", number)) for number in range(3)] == [9, 1, 0]
    whole = stream.next(first, is_limited=False)
    assert whole is not None
    assert whole.next == reported.ends
    # Frozen: later messages are not visible, and the stream does not wait for them.
    stream.freeze()
    gateway.reported = described(topic("orders", partition(0, 0, 900), partition(1, 0, 10), partition(2, 0, 7)))
    clock.now += 1
    assert stream.next(whole, is_limited=True) is None


def test_ranges_of_a_batch() -> None:
    options = stream_options(LEAST)
    there = described(topic("orders", partition(0, 0, 20), partition(1, 0, 20)))
    start = Offsets.of("shop", there, {("orders", 0): 5, ("orders", 1): 20})
    end = Offsets.of("shop", there, {("orders", 0): 8, ("orders", 1): 20})
    assert ranges(start, end, there, options) == {("orders", 0): (5, 8)}
    # A partition created later starts at 0, also in a repeated batch.
    first = Offsets("shop", {("orders", 1): 20}, start.incarnations, {("orders", 1): "11.0"})
    assert ranges(first, end, there, options) == {("orders", 0): (0, 8)}
    with pytest.raises(DataLossError, match="goes from 5 back to 3"):
        ranges(start, Offsets.of("shop", there, {("orders", 0): 3}), there, options)


LOSSES = {
    "expired": topic("orders", partition(0, 6, 20)),
    "cut off": topic("orders", partition(0, 0, 7)),
    "cut off, and grown": topic("orders", partition(0, 0, 30, openings=((3, 0), (5, 7)))),
    "purged": topic("orders", partition(0, 0, 20, epoch=1)),
    "made anew": topic("orders", partition(0, 0, 20, incarnation=99)),
    "not there": topic("orders"),
}


@pytest.mark.parametrize("what", LOSSES)
def test_what_is_lost_is_never_passed_over_in_silence(what: str) -> None:
    before = described(topic("orders", partition(0, 0, 20, openings=((3, 0),))))
    start = Offsets.of("shop", before, {("orders", 0): 5})
    end = Offsets.of("shop", before, {("orders", 0): 10})
    now = described(LOSSES[what])
    with pytest.raises(DataLossError, match="failOnDataLoss = false"):
        ranges(start, end, now, stream_options(LEAST))
    left = ranges(start, end, now, stream_options(LEAST | {"failOnDataLoss": "false"}))
    cut = {("orders", 0): (5, 7)}
    expected = {"expired": {("orders", 0): (6, 10)}, "cut off": cut, "cut off, and grown": cut}
    assert left == expected.get(what, {})


@pytest.mark.parametrize(
    ("what", "position"),
    [("purged", 0), ("made anew", 0), ("cut off", 7), ("cut off, and grown", 7), ("not there", None)],
)
def test_a_stream_goes_on_in_what_is_left(what: str, position: int | None) -> None:
    before = described(topic("orders", partition(0, 0, 20, openings=((3, 0),))))
    at = Offsets.of("shop", before, {("orders", 0): 15})
    now = described(LOSSES[what])
    with pytest.raises(DataLossError):
        followed(at, now, stream_options(LEAST))
    found = followed(at, now, stream_options(LEAST | {"failOnDataLoss": "false"}))
    assert found.next.get(("orders", 0)) == position


def test_a_log_that_was_opened_again_is_no_loss() -> None:
    """Check that neither openings behind the position, nor openings of which nothing is known, are taken for a cut."""
    before = described(topic("orders", partition(0, 0, 20, openings=((3, 0),))))
    at = Offsets.from_text("shop", Offsets.of("shop", before, before.ends).to_text())
    assert at.epochs == {("orders", 0): 3}
    now = described(topic("orders", partition(0, 0, 30, openings=((3, 0), (4, 20), (9, 25)))))
    found = followed(at, now, stream_options(LEAST))
    assert (found.at(("orders", 0)), found.epochs) == (20, {("orders", 0): 9})
    unknown = described(topic("orders", partition(0, 0, 30)))
    assert followed(at, unknown, stream_options(LEAST)).epochs == {}
    assert (
        followed(Offsets.of("shop", unknown, {("orders", 0): 30}), now, stream_options(LEAST)).at(("orders", 0)) == 30
    )


def planned(stream: Following, start: Offsets, end: Offsets) -> list[tuple[str, int, int, int]]:
    return [(split.topic, split.partition_id, split.start, split.end) for split in stream.splits(start, end)]


@pytest.mark.parametrize("others", [0, 1])
def test_a_log_that_was_cut_off_goes_on_where_it_ends(others: int) -> None:
    """Check that new messages with the offsets of lost ones are read, with and without messages elsewhere."""
    clock = Clock()
    before = described(topic("orders", partition(0, 0, 15), partition(1, 0, 20)))
    start = Offsets.of("shop", before, before.ends)
    # More messages than there are: the cut is noted at once in any case.
    stream, gateway = following(before, clock, failOnDataLoss="false", minOffsetsPerTrigger="100")
    gateway.reported = described(topic("orders", partition(0, 0, 7), partition(1, 0, 20 + others)))
    noted = stream.next(start, is_limited=True)
    assert noted is not None
    assert noted.next == {("orders", 0): 7, ("orders", 1): 20}
    # Spark plans the micro-batch again after each restart.
    assert planned(stream, start, noted) == []
    strict, of_strict = following(before)
    of_strict.reported = gateway.reported
    with pytest.raises(DataLossError, match=r"goes from 15 back to 7\. failOnDataLoss = false"):
        strict.splits(start, noted)
    assert stream.next(noted, is_limited=True) is None
    clock.now += 1
    gateway.reported = described(topic("orders", partition(0, 0, 18), partition(1, 0, 20 + others)))
    end = stream.next(noted, is_limited=False)
    assert end is not None
    elsewhere = [("orders", 1, 20, 20 + others)] if others else []
    assert planned(stream, noted, end) == [("orders", 0, 7, 18), *elsewhere]


def test_a_topic_that_joins_begins_at_its_first_message() -> None:
    clock = Clock()
    orders = topic("orders", partition(0, 0, 5))
    alone = described(orders)
    start = Offsets.of("shop", alone, alone.ends)
    # Retention has removed 1000 messages, which were never to be read.
    stream, gateway = following(described(orders, topic("returns", partition(0, 1000, 5000))), clock)
    noted = stream.next(start, is_limited=False)
    assert noted is not None
    assert noted.next == {("orders", 0): 5, ("returns", 0): 1000}
    assert planned(stream, start, noted) == []
    end = stream.next(noted, is_limited=False)
    assert end is not None
    assert planned(stream, noted, end) == [("returns", 0, 1000, 5000)]
    # An earlier release has noted both in one micro-batch.
    assert planned(stream, start, end) == [("returns", 0, 1000, 5000)]
    # Retention goes on before the micro-batches are planned again: the first has nothing to lose, the second has.
    clock.now += 1
    gateway.reported = described(orders, topic("returns", partition(0, 1500, 5000)))
    assert planned(stream, start, noted) == []
    with pytest.raises(DataLossError, match="offsets 1000 to 5000: there are those from 1500 to 5000"):
        stream.splits(noted, end)


def test_a_new_partition_of_a_topic_begins_at_0() -> None:
    """Check that a loss from its start on is reported: the stream was there before the partition."""
    before = described(topic("orders", partition(0, 0, 5)))
    start = Offsets.of("shop", before, before.ends)
    stream, _ = following(described(topic("orders", partition(0, 0, 5), partition(1, 3, 9))))
    end = stream.next(start, is_limited=False)
    assert end is not None
    with pytest.raises(DataLossError, match="partition 1, offsets 0 to 9: there are those from 3 to 9"):
        stream.splits(start, end)


def test_a_range_that_goes_back_is_never_a_task() -> None:
    planner = Planner(stream_options(LEAST))
    with pytest.raises(OffsetError, match="a range from 5 to 4 cannot be"):
        planner.splits({("orders", 0): (5, 4)}, described(topic("orders", partition(0, 0, 9))), is_batch=False)


class Elsewhere(grpc.RpcError):
    """Refusal of a node without the partition."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the partition is on another node"

    def trailing_metadata(self) -> Any:
        return ((STATUS_METADATA, str(int(Status.PARTITION_ELSEWHERE))),)


def test_a_partition_that_moves_while_tasks_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the driver looks for the leader as often as it may ask again, and not for another log."""
    before = partition(0, 0, 50)
    reported = described(topic("orders", before))
    gateway = Gateway(reported)
    asked: list[str] = []

    def cuts(of: Topic, part: Partition, start: int, *_: object) -> list[tuple[int, int]]:
        asked.append(part.address)
        if part.address == "n:2":
            return [(start, 2500), (25, 2500)]
        if len(asked) == 3:
            gateway.reported = described(topic("orders", replace(before, address="n:2")))
        raise Elsewhere

    monkeypatch.setenv("STREAM_TOKEN", "t")
    monkeypatch.setattr(planning, "Gateway", lambda _: gateway)
    monkeypatch.setattr(planning, "cuts", cuts)
    given = {"tokenEnv": "STREAM_TOKEN", "maxBytesPerPartition": "1k", "retry.max": "3", "retry.intervalMs": "1"}
    planner = Planner(stream_options(LEAST | given), Clock())
    splits = planner.splits({("orders", 0): (0, 50)}, reported, is_batch=False)
    assert asked == ["n:1", "n:1", "n:1", "n:2"]
    assert [(split.address, split.start, split.end) for split in splits] == [("n:2", 0, 25), ("n:2", 25, 50)]
    gateway.reported = reported
    with pytest.raises(UnreachableError, match="orders, partition 0: n:1 fails: UNAVAILABLE: the partition is on"):
        planner.splits({("orders", 0): (0, 50)}, reported, is_batch=False)
    assert asked[4:] == ["n:1"] * 4
    gateway.reported = described(topic("orders", replace(before, purge_epoch=1)))
    with pytest.raises(DataLossError, match="orders, partition 0: it was purged"):
        planner.splits({("orders", 0): (0, 50)}, reported, is_batch=False)


def test_where_reading_begins() -> None:
    there = described(topic("orders", partition(0, 3, 9), partition(1, 0, 4)))

    def grown(wanted: Mapping[Key, int]) -> dict[Key, int]:
        return dict.fromkeys(wanted, 11)

    def begin(**more: str) -> list[int]:
        found = starts(stream_options(LEAST | more), there, lambda wanted: dict.fromkeys(wanted, 4), otherwise=-1)
        return [found["orders", number] for number in range(2)]

    assert begin() == [9, 4]
    assert begin(startingOffsets="earliest") == [3, 0]
    assert begin(startingOffsets='{"orders": {"0": 5}}') == [5, 0]
    assert begin(startingOffsets='{"orders": {"0": -1, "1": -2}}') == [9, 0]
    with pytest.raises(DataLossError, match="begins at 3: what startingOffsets asks for, 2, is gone"):
        begin(startingOffsets='{"orders": {"0": 2}}')
    assert begin(startingOffsets='{"orders": {"0": 2}}', failOnDataLoss="false") == [3, 0]
    with pytest.raises(OptionError, match="ends at 9, there is no 10 yet"):
        begin(startingOffsets='{"orders": {"0": 10}}')
    with pytest.raises(OptionError, match="partition 1 has no message at or after 7000 microseconds"):
        begin(startingTimestamp="7")
    assert begin(startingTimestamp="7", startingOffsetsByTimestampStrategy="latest") == [4, 4]
    assert begin(startingOffsetsByTimestamp='{"orders": {"0": 7}}', startingOffsets="earliest") == [4, 0]
    assert ends(stream_options(LEAST), there, lambda wanted: {}) == {("orders", 0): 9, ("orders", 1): 4}
    # Messages that arrive after the description, and are older than the time, move the end behind which reading begins.
    later = batch_options(
        LEAST | {"startingTimestamp": "7", "endingTimestamp": "8", "startingOffsetsByTimestampStrategy": "latest"}
    )
    for found in (starts(later, there, grown, otherwise=-2), ends(later, there, grown)):
        assert found == {("orders", 0): 9, ("orders", 1): 4}
    with pytest.raises(OptionError, match="partition 0 has no message at or after 7000 microseconds"):
        starts(stream_options(LEAST | {"startingTimestamp": "7"}), there, grown, otherwise=-1)
    # A range of removed messages, which begins at 3, is empty.
    gone = batch_options(LEAST | {"endingOffsets": '{"orders": {"0": 2}}', "failOnDataLoss": "false"})
    assert ends(gone, there, lambda wanted: {}) == {("orders", 0): 3, ("orders", 1): 4}
