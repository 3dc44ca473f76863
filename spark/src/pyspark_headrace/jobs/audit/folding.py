"""Combination of ranges into findings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby

from pyspark_headrace.jobs.audit.config import CHECKSUM, GAPS, NULL_KEY, ORDER, SIZE
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.scanned import Scanned


def fold(ranges: Iterable[Scanned], findings: Findings, *, is_sample: bool = False) -> None:
    """Report gaps, overlaps, decreasing timestamps, and unreadable messages.

    Args:
        ranges: Ranges of any partitions.
        findings: Collector of findings.
        is_sample: Ranges were left out on purpose.
    """
    ordered = sorted(ranges, key=lambda one: (one.stream, one.topic, one.partition, one.start, one.end))
    for _, of_it in groupby(ordered, key=lambda one: (one.stream, one.topic, one.partition)):
        before: Scanned | None = None
        for one in of_it:
            _look_at(one, findings)
            if before is not None:
                _between(before, one, findings, is_sample=is_sample)
            if before is None or one.end >= before.end:
                before = one


def _look_at(one: Scanned, findings: Findings) -> None:
    for start, end, reason in one.unreadable:
        what = f"message {start}" if end == start + 1 else f"messages {start} to {end - 1}"
        findings.add(CHECKSUM, one.place | {"offset": start, "until": end}, f"{what} cannot be read: {reason}")
    expected = one.end - one.start - one.removed - one.unreadable_count
    if one.rows != expected:
        where = one.place | {"offset": one.start, "until": one.end}
        findings.add(GAPS, where, f"{one.rows} messages from {one.start} to {one.end - 1}, instead of {expected}")
    for number, (offset, micros) in enumerate(one.backwards):
        is_last = number == len(one.backwards) - 1
        count = 1 + one.backwards_count - len(one.backwards) if is_last else 1
        _back(one, offset, micros, findings, count)
    if one.null_keys:
        findings.add(
            NULL_KEY,
            one.place | {"offset": one.first_null_key, "until": one.end},
            f"{one.null_keys} messages have no key, the first of them is {one.first_null_key}",
            "warning",
        )
    for number, (offset, size) in enumerate(one.large):
        is_last = number == len(one.large) - 1
        count = 1 + one.large_count - len(one.large) if is_last else 1
        findings.add(SIZE, one.place | {"offset": offset}, f"message {offset} has {size} bytes", "warning", count=count)


def _between(before: Scanned, one: Scanned, findings: Findings, *, is_sample: bool) -> None:
    if one.start > before.end and not is_sample:
        where = one.place | {"offset": before.end, "until": one.start}
        findings.add(GAPS, where, f"messages {before.end} to {one.start - 1} are missing")
    if one.start < before.end:
        until = min(one.end, before.end)
        where = one.place | {"offset": one.start, "until": until}
        findings.add(GAPS, where, f"messages {one.start} to {until - 1} are there twice")
    if before.rows and one.rows and one.first_timestamp < before.last_timestamp:
        _back(one, one.first_offset, before.last_timestamp - one.first_timestamp, findings)


def _back(one: Scanned, offset: int, micros: int, findings: Findings, count: int = 1) -> None:
    by = timedelta(microseconds=micros)
    message = f"message {offset} is {by} older than the one before it"
    findings.add(ORDER, one.place | {"offset": offset}, message, count=count)


def time_of(micros: int) -> str:
    """Format a timestamp."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat(timespec="milliseconds")
