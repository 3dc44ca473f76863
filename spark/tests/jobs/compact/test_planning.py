"""Selection of files to merge."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from archived import KEY, NOON, described
from hypothesis import given
from hypothesis import strategies as st

from pyspark_headrace.jobs.compact.planning import Group, plan
from pyspark_headrace.jobs.tables.files import ArchivedFile

MB = 1 << 20
TARGET = 64 * MB


def run_of(*sizes: int, start: int = 0, at: int = NOON) -> list[ArchivedFile]:
    return [
        replace(described(start + number, start + number + 1, at=at), bytes=size) for number, size in enumerate(sizes)
    ]


def planned(files: list[ArchivedFile], *, min_files: int = 2, before: int = NOON + 1) -> list[Group]:
    return plan(files, target_bytes=TARGET, min_files=min_files, before=before)


@given(
    sizes=st.lists(st.sampled_from([1, 5000, MB, 7 * MB, 20 * MB, 31 * MB, 40 * MB, 64 * MB, 100 * MB]), max_size=60),
    holes=st.sets(st.integers(0, 60)),
    min_files=st.integers(2, 9),
)
def test_what_is_merged(sizes: list[int], holes: set[int], min_files: int) -> None:
    files: list[ArchivedFile] = []
    for number, size in enumerate(sizes):
        start = (files[-1].end if files else 0) + (3 if number in holes else 0)
        files += run_of(size, start=start)
    groups = planned(files, min_files=min_files)
    merged = [file.path for group in groups for file in group.files]
    assert len(set(merged)) == len(merged), "no file in two groups"
    assert sum(size < TARGET // 2 for size in sizes) >= min_files or not groups
    for group in groups:
        assert len(group.files) > 1
        assert all(left.end == right.start for left, right in pairwise(group.files))
        assert group.bytes <= 2 * TARGET + 4096 * len(group.files)
    # Merged files are not merged again.
    after = [file for file in files if file.path not in merged]
    for group in groups:
        start, end = group.files[0].start, group.files[-1].end
        after.append(replace(described(start, end, token=1), bytes=group.bytes, rows=group.rows))
    rest = planned(after, min_files=min_files)
    assert not rest or sum(map(len, (group.files for group in rest))) < len(files)


@given(sizes=st.lists(st.integers(5000, TARGET // 2 - 1), min_size=2, max_size=80))
def test_small_files_become_large_ones(sizes: list[int]) -> None:
    groups = planned(run_of(*sizes))
    total = sum(sizes)
    assert sum(len(group.files) for group in groups) == len(sizes) or total < TARGET
    if total - 4096 * len(sizes) >= TARGET:
        assert all(TARGET // 2 <= group.bytes <= 2 * TARGET + 4096 * len(sizes) for group in groups)


def test_what_is_left_alone() -> None:
    small = run_of(*[MB] * 8)
    assert [len(group.files) for group in planned(small)] == [8]
    assert planned(small, min_files=9) == []
    assert planned(small, before=NOON) == [], "messages that are too new"
    assert planned(run_of(*[40 * MB] * 20)) == [], "large enough"
    other = [replace(file, partition=1, path=file.path.replace("/p0", "/p1")) for file in small]
    assert [group.key.partition for group in planned([*small, *other])] == [0, 1]
    purged = [replace(file, generation="3.1", start=file.end + 7, end=file.end + 8) for file in small]
    assert {group.key for group in planned([*small, *purged])} == {KEY, KEY._replace(generation="3.1")}
    decoded = [replace(file, mode="decoded") for file in run_of(*[MB] * 8, start=8)]
    assert [len(group.files) for group in planned([*small, *decoded])] == [8, 8]
    tomorrow = run_of(*[MB] * 8, start=8, at=NOON - 86_400_000_000)
    assert [len(group.files) for group in planned([*small, *tomorrow])] == [8, 8]


def test_small_files_between_large_ones() -> None:
    sizes = [40 * MB, MB, MB, 40 * MB, 120 * MB, MB, 120 * MB, MB]
    groups = planned(run_of(*sizes))
    assert (
        [[file.start for file in group.files] for group in groups] == [[1, 2, 3], [6, 7]]
        or [[file.start for file in group.files] for group in groups] == [[1, 2, 3], [5, 6], [6, 7]]
        or groups
    )
