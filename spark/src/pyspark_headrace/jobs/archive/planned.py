"""Plan of an archive run, for ``--dry-run``."""

from __future__ import annotations

from typing import Any

from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.table import Batch, Table, check
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.options.values import EARLIEST
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.selection import starts


def planned(options: ReadOptions, table: Table) -> Report:
    """Compare topics with what is archived already.

    Raises:
        TopicRecreatedError: The archived messages belong to an earlier topic of the same name.
        HeadraceError: Any other condition that would keep the job from working.
    """
    planner = Planner(options)
    described = planner.describe(with_sizes=True)
    begin = starts(options, described, planner.offsets_of_times(described), otherwise=EARLIEST)
    keys = {
        key: PartitionKey(
            options.stream, key[0], key[1], str(described.topics[key[0]].incarnation), partition.generation
        )
        for key, partition in described.partitions.items()
    }
    reached = table.reached([(options.stream, *key) for key in keys])
    ranges: dict[PartitionKey, tuple[int, int]] = {}
    size = 0.0
    for key, of_table in keys.items():
        last = reached.get((options.stream, *key))
        partition = described.partitions[key]
        start = begin[key] if last is None else last.end
        ranges[of_table] = (start, max(partition.next_offset, start))
        size += (ranges[of_table][1] - start) * partition.bytes_per_message
    check(Batch(job="", query="", number=0, files=(), ranges=ranges), reached)
    found: dict[str, dict[str, Any]] = {}
    for of_table, (start, end) in ranges.items():
        if end > start:
            found.setdefault(of_table.topic, {})[str(of_table.partition)] = [start, end]
    rows = sum(end - start for start, end in ranges.values())
    return Report(counts={"rows": rows, "log_bytes": int(size)}, details={"ranges": found})
