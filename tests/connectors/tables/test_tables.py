"""CON-81, CON-13: each message is in one of several tables, and once, whatever is killed.

Stops before each file and each commit are in the tests of the sinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

import headrace
from headrace_connectors.sinks.parquet.partition import PartitionFiles
from tests.connectors.process import Connectors, until
from tests.connectors.test_sinks import FAST

TABLES = ("orders", "returns", "others")


def send(client: headrace.Client, stream: str, numbers: range) -> None:
    """Send objects to the two partitions of a topic. Each fifth is of no table, and each tenth names a wrong one."""
    with client.producer(stream, "t") as producer:
        for number in numbers:
            kind = {9: ', "kind": "lost"', 4: ""}.get(number % 10, f', "kind": "{TABLES[number % 2]}"')
            producer.send_many([b'{"id": %d%s}' % (number, kind.encode())], partition=number % 2)


def expected(numbers: range) -> dict[str, list[int]]:
    """Numbers by table."""
    named = [number for number in numbers if number % 10 not in (4, 9)]
    return {
        "orders": [number for number in named if number % 2 == 0],
        "returns": [number for number in named if number % 2 == 1],
        "others": [number for number in numbers if number % 10 == 4],
    }


def in_files(path: Path) -> dict[str, list[int]]:
    """Numbers in files that count, by table."""
    found: dict[str, list[int]] = {table: [] for table in TABLES}
    for manifest in path.glob("stream=*/*/*/manifest.json"):
        for file in PartitionFiles(manifest.parent, "zstd").paths():
            found[file.relative_to(path).parts[0]] += pq.read_table(file, partitioning=None)["id"].to_pylist()
    return {table: sorted(numbers) for table, numbers in found.items()}


def in_tables(path: Path) -> dict[str, list[int]]:
    """Numbers in Delta tables."""
    found = {}
    for table in TABLES:
        try:
            rows = DeltaTable(path / table).to_pyarrow_table(columns=["id"])["id"].to_pylist()
        except TableNotFoundError:
            rows = []
        found[table] = sorted(rows)
    return found


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("plugin", "found", "point"),
    [
        *(("parquet", in_files, point) for point in ("sink-before-storing", "after-parquet-file-2")),
        *(("delta", in_tables, point) for point in ("sink-before-storing", "after-delta-commit-2")),
    ],
)
def test_each_message_is_in_one_table_once_whatever_is_killed(
    client: headrace.Client,
    connectors: Connectors,
    stream: str,
    tmp_path: Path,
    plugin: str,
    found: Callable[[Path], dict[str, list[int]]],
    point: str,
) -> None:
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=2)
    send(client, stream, range(60))
    path = tmp_path / "lake"
    connectors.run(
        f'[sinks.a]\nplugin = "{plugin}"\nstream = "{stream}"\ntopic = "t"\nlinger = "5 ms"\nbatch_size = 10\n'
        f'[sinks.a.settings]\npath = "{path}"\ncolumns = {{ id = "int64" }}\ntable_field = "kind"\n'
        f'tables = ["orders", "returns"]\ntable = "others"\n{FAST}',
        fault=(point,),
    )
    assert connectors.wait() == -9
    assert sum(map(len, found(path).values())) < 54
    send(client, stream, range(60, 80))
    connectors.run()
    until(lambda: sum(map(len, found(path).values())) >= 72)
    assert connectors.stop() == 0
    assert found(path) == expected(range(80))
    if plugin == "parquet":
        named = [
            file for one in path.glob("stream=*/*/*/manifest.json") for file in PartitionFiles(one.parent, "").paths()
        ]
        assert Counter(named) == Counter(path.glob("*/stream=*/*/*/*.parquet"))
    letters = {letter.payload for letter in client.read(stream, "t-dead")}
    assert letters == {b'{"id": %d, "kind": "lost"}' % number for number in range(9, 80, 10)}
