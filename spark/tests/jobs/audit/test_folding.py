"""Combination of ranges by `audit`, without servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from archived import NOON
from hypothesis import given
from hypothesis import strategies as st

from pyspark_headrace.cluster.description import Description, Partition, Topic
from pyspark_headrace.jobs.audit.config import CHECKS, AuditConfig
from pyspark_headrace.jobs.audit.duplicates import _readable
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.folding import fold
from pyspark_headrace.jobs.audit.retention import check_retention
from pyspark_headrace.jobs.audit.scanned import Piece, Scanned, Unreadable
from pyspark_headrace.jobs.running.arguments import parsed

HOUR = 3_600_000_000


def ranges_of(bounds: list[int], partition: int = 0) -> list[Scanned]:
    """Ranges without faults; one message per microsecond."""
    return [
        Scanned(
            stream="s",
            topic="t",
            partition=partition,
            start=start,
            end=end,
            rows=end - start,
            first_offset=start,
            first_timestamp=NOON + start,
            last_timestamp=NOON + end - 1,
            pieces=[Piece(start, end, end - start, 0, NOON + start)],
        )
        for start, end in pairwise(bounds)
    ]


def found(ranges: list[Scanned], **more: bool) -> list[tuple[str, int, int | None, int | None]]:
    findings = Findings(frozenset(CHECKS))
    fold(ranges, findings, **more)
    return [
        (one.check, one.where["partition"], one.where.get("offset"), one.where.get("until")) for one in findings.listed
    ]


bounds = st.lists(st.integers(0, 10**12), min_size=5, max_size=30, unique=True).map(sorted)


@given(bounds=bounds, data=st.data())
def test_each_fault_is_found_where_it_is(bounds: list[int], data: st.DataObject) -> None:
    ranges = data.draw(st.permutations([*ranges_of(bounds), *ranges_of(bounds, partition=1)]))
    assert found(ranges) == []
    faulty = [one for one in ranges if one.partition == 1 and one.start != bounds[0] and one.end != bounds[-1]]
    victim = data.draw(st.sampled_from(faulty))
    others = [one for one in ranges if one is not victim]
    start, end = victim.start, victim.end
    assert found(others) == [("gaps", 1, start, end)]
    assert found(others, is_sample=True) == []
    assert found([*others, replace(victim, rows=victim.rows - 1)]) == [("gaps", 1, start, end)]
    assert found([*others, replace(victim, end=end + 1, rows=victim.rows + 1)])[0] == ("gaps", 1, end, end + 1)
    earlier = replace(victim, first_timestamp=victim.first_timestamp - 5)
    assert found([*others, earlier]) == [("order", 1, start, None)]
    assert found([*others, replace(victim, backwards=[(start, 7)], backwards_count=1)]) == [("order", 1, start, None)]
    damaged = replace(victim, rows=victim.rows - 1, unreadable=[Unreadable(start, start + 1, "flipped")])
    assert found([*others, damaged]) == [("checksum", 1, start, start + 1)]
    assert found([*others, replace(victim, rows=victim.rows - 1, removed=1)]) == []
    # Ids are compared nevertheless, except that of the damaged message.
    parts = _readable([*others, damaged])
    assert parts["t", 0] == [(bounds[0], bounds[-1])]
    assert parts["t", 1] == [part for part in ((bounds[0], start), (start + 1, bounds[-1])) if part[0] < part[1]]


def test_findings_are_counted_and_not_all_listed() -> None:
    (one,) = ranges_of([0, 1000])
    many = replace(
        one,
        backwards=[(offset, 1) for offset in range(20)],
        backwards_count=500,
        null_keys=7,
        first_null_key=3,
        large=[(5, 2000)],
        large_count=1,
    )
    findings = Findings(frozenset(CHECKS))
    fold([many], findings)
    assert findings.count == 500 + 1 + 1
    assert [(one.check, one.level, one.where["offset"]) for one in findings.listed if one.check != "order"] == [
        ("null-key", "warning", 3),
        ("size", "warning", 5),
    ]
    for number in range(300):
        findings.add("gaps", {"stream": "s", "topic": "t", "partition": 0, "offset": number}, "x")
    assert sum(one.check == "gaps" for one in findings.listed) == 100
    others = Findings(frozenset({"gaps"}))
    fold([many], others)
    assert others.listed == []


class Settings:
    """Topic settings as returned by a gateway."""

    def __init__(self, expiry: int | None) -> None:
        self.expiry = expiry

    def message_expiry_micros(self, topic: Topic) -> int | None:
        return self.expiry


@pytest.mark.parametrize(
    ("expiry", "end", "expected"),
    [
        (None, None, []),
        (None, 100, []),
        (3 * HOUR, None, []),
        (3 * HOUR, 500, []),
        # Messages older than the retention time.
        (HOUR, 500, [("info", 100, None)]),
        # Messages removed before they were archived; and messages close to removal.
        (None, 60, [("error", 60, 100)]),
        (2 * HOUR + HOUR // 10, 300, [("warning", 300, None)]),
    ],
)
def test_retention(expiry: int | None, end: int | None, expected: list[tuple[str, int, int | None]]) -> None:
    partition = Partition(0, 3, 0, 100, 500, 400, 4000, "")
    described = Description({"t": Topic("s", "t", 1, 1, 17, (partition,))})
    scanned = ranges_of([100, 500])[0]
    cut = end if end is not None and 100 < end < 500 else 200
    pieces = [Piece(100, cut, cut - 100, 0, NOON + 100), Piece(cut, 500, 500 - cut, 0, NOON + cut)]
    findings = Findings(frozenset(CHECKS))
    archived = {} if end is None else {("t", 0): end}
    check_retention(
        Settings(expiry),  # type: ignore[arg-type]
        described,
        [replace(scanned, pieces=pieces)],
        archived,
        NOON + 2 * HOUR,
        findings,
    )
    assert [(one.level, one.where["offset"], one.where.get("until")) for one in findings.listed] == expected


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--servers", "h:1", "--stream", "s"],
        ["--servers", "h:1", "--topics", "a"],
        ["--servers", "h:1", "--stream", "s", "--topics", "a", "--topics-pattern", "b"],
        ["--archive", "x", "--topics", "a", "--topics-pattern", "b"],
        ["--archive", "x", "--checks", "gaps,nonsense"],
        ["--archive", "x", "--sample", "0"],
        ["--archive", "x", "--sample", "1.5"],
        ["--archive", "x", "--sample", "half"],
        ["--archive", "x", "--since", "yesterday"],
    ],
)
def test_wrong_arguments(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(AuditConfig, wrong)
    assert end.value.code == 2
