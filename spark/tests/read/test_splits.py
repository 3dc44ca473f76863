"""SPK-1: tasks cover every offset of their ranges once."""

from __future__ import annotations

import pickle
from itertools import accumulate, pairwise

from described import described, partition, topic
from hypothesis import given
from hypothesis import strategies as st

from pyspark_headrace.cluster.description import Key
from pyspark_headrace.options.reading import ROWS_PER_SPLIT_MIN, ReadOptions, read_options
from pyspark_headrace.read.splits import Part, Split, cut, split_up, target_bytes

LEAST = {"servers": "a:8094", "stream": "shop", "subscribe": "orders"}


def options(**more: str) -> ReadOptions:
    return read_options(LEAST | more)


def tasks(counts: list[list[int]], options: ReadOptions) -> list[Split]:
    """Return tasks for partitions with parts of the given numbers of 100-byte messages, from offset 5 on."""
    there = described(topic("orders", *(partition(at, 5, 5 + sum(found)) for at, found in enumerate(counts))))
    parts: dict[Key, list[Part]] = {}
    for at, found in enumerate(counts):
        bounds = list(accumulate(found, initial=5))
        of_it = [Part(start, end, 100 * (end - start)) for start, end in pairwise(bounds) if end > start]
        if of_it:
            parts["orders", at] = of_it
    return split_up(parts, there, {"orders": "a ticket"}, options)


@given(st.integers(0, 10**15), st.integers(1, 10**6), st.integers(1, 200))
def test_a_cut_range_is_whole(start: int, length: int, number: int) -> None:
    parts = cut(start, start + length, min(number, length))
    assert parts[0][0] == start
    assert parts[-1][1] == start + length
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    lengths = [end - begin for begin, end in parts]
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1


@given(
    st.lists(st.lists(st.integers(0, 1000), max_size=4), min_size=1, max_size=6),
    st.integers(1, 100),
    st.integers(1, 500),
)
def test_tasks_cover_what_is_read(counts: list[list[int]], least: int, rows: int) -> None:
    found = tasks(counts, options(minPartitions=str(least), maxRecordsPerPartition=str(rows)))
    for at, of_partition in enumerate(counts):
        of_it = [(task.start, task.end) for task in found if task.partition_id == at]
        if not sum(of_partition):
            assert not of_it
            continue
        assert (of_it[0][0], of_it[-1][1]) == (5, 5 + sum(of_partition))
        assert all(before[1] == after[0] for before, after in pairwise(of_it))
        # No task crosses the boundary of its part.
        bounds = {5 + before for before in accumulate(of_partition, initial=0)}
        assert bounds <= {5} | {end for _, end in of_it}
    assert all(0 < task.end - task.start <= rows for task in found)
    assert all(task.size_bytes == 100 * (task.end - task.start) for task in found)
    assert len(found) >= min(least, sum(map(sum, counts)))


def test_tasks_are_not_small_unless_configured() -> None:
    many, message = 3 * ROWS_PER_SPLIT_MIN, 256_000
    asked = options(maxBytesPerPartition="256m")
    assert target_bytes(many, many * message, options(), is_batch=True) == ROWS_PER_SPLIT_MIN * message
    assert target_bytes(many, many * message, asked, is_batch=True) == 256 << 20
    assert target_bytes(many, many * 1000, options(), is_batch=True) == 256 << 20
    assert target_bytes(many, many * 100, options(), is_batch=True) is None
    # Streams have one task per partition.
    assert target_bytes(many, many * message, options(), is_batch=False) is None
    assert target_bytes(many, many * message, asked, is_batch=False) == 256 << 20
    assert len(tasks([[10], [10]], options(minPartitions="6"))) == 6
    assert len(tasks([[10], [1], []], options())) == 2


def test_a_task_is_what_an_executor_needs_and_does_not_show_its_ticket() -> None:
    (task,) = tasks([[3]], options())
    assert pickle.loads(pickle.dumps(task)) == task
    assert task.ticket == "a ticket"
    assert "a ticket" not in repr(task)
    assert (task.topic_incarnation, task.incarnation, task.size_bytes, task.address) == (7, 10, 300, "n:1")
