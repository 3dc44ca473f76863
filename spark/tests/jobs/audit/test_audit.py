"""`audit` on a real server and real archives: clean ones have no findings, and each fault is reported with its
location.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import archived as archives
import planted
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from archiving import archived_rows
from place import PASSWORD_VARIABLE, Place
from pyspark.sql import SparkSession
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.faults.segment_files import flip
from tests.server_process import USERNAME, ServerProcess

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.audit.config import DUP_ID, AuditConfig
from pyspark_headrace.jobs.audit.duplicates import find_duplicates
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.job import JOB
from pyspark_headrace.jobs.audit.scanned import Scanned, Unreadable
from pyspark_headrace.jobs.compact.job import JOB as COMPACT
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.delta import PARTITIONED_BY, DeltaLakeTable, added, schema_of
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.footers import described_in
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split

COUNT = 140
"""Number of messages of a partition: three sealed segments, and an open one."""
PARTITIONS = 9
CUTS = (0, 50, 51, 120, COUNT)
"""Boundaries of archive files, different from those of segments."""
SMALL_SEGMENTS = {
    "SYSTEM_SEGMENT_SIZE": "32 KiB",
    "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "8 KiB",
    "MESSAGE_SAVER_SYNC_INTERVAL": "10 ms",
}


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A topic without faults, and one with a fault of each kind on the server's disk."""
    with ServerProcess(tmp_path_factory.mktemp("audit") / "data", SMALL_SEGMENTS) as server:
        with Place(server, "s") as place:
            for topic in ("clean", "faulty"):
                place.client.create_topic("s", topic, PARTITIONS)
                for number in range(PARTITIONS):
                    for start in range(0, COUNT, 10):
                        some = [b"%s %d %d " % (topic.encode(), number, one) for one in range(start, start + 10)]
                        place.client.send("s", topic, [one.ljust(900, b"x") for one in some], partition=number)
        server.stop()
        directories = [server.partition_directory(0, 1, number) for number in range(PARTITIONS)]
        for number, edit in enumerate((planted.hole, planted.overlap, planted.same_id, planted.time_back)):
            planted.rewrite(planted.sealed(directories[number]), edit)
        planted.flipped(planted.sealed(directories[4]))
        planted.sealed(directories[5]).unlink()
        server.start()
        yield place


@pytest.fixture(scope="module")
def archived(spark: SparkSession, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of the clean topic."""
    directory = tmp_path_factory.mktemp("archive")
    given = place.options(subscribe="clean")
    frame = spark.read.format("headrace").options(**given, emit="ranges").schema("split BINARY").load()
    for row in frame.collect():
        split = Split.from_bytes(row["split"])
        rows = pa.Table.from_batches(read_range(split, batch_options(given), RAW_SCHEMA)).combine_chunks()
        key = key_of(split)
        for start, end in pairwise(CUTS):
            archives.commit(directory, write(directory, key, rows.slice(start, end - start)))
    return directory


def key_of(split: Split) -> PartitionKey:
    generation = f"{split.incarnation}.{split.purge_epoch}"
    return PartitionKey(split.stream, split.topic, split.partition_id, str(split.topic_incarnation), generation)


def write(directory: Path, key: PartitionKey, rows: pa.Table) -> list[ArchivedFile]:
    writer = archives.writer(directory, 10**6, key=key)
    for batch in rows.to_batches():
        writer.write(batch)
    return writer.close()


def audit(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    done = JOB.main([*arguments, "--log-level", "warning"])
    output = capsys.readouterr()
    assert done == code, output
    report: dict[str, Any] = json.loads(output.out.splitlines()[-1])
    return report


def of(place: Place, *more: str) -> list[str]:
    server = ["--servers", place.server.grpc_address, "--username", USERNAME, "--password-env", PASSWORD_VARIABLE]
    return [*server, "--stream", "s", *more]


@pytest.mark.long
def test_what_is_clean_has_no_findings(
    place: Place, archived: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = of(place, "--topics", "clean", "--archive", str(archived), "--out", str(tmp_path), "--name", "nightly")
    report = audit(capsys, *where, "--fail-on", "info")
    assert (report["status"], report["findings"]) == ("done", [])
    files = PARTITIONS * (len(CUTS) - 1)
    assert {name: report["counts"][name] for name in ("rows", "unreadable", "files", "files_compared", "findings")} == {
        "rows": PARTITIONS * COUNT,
        "unreadable": 0,
        "files": files,
        "files_compared": files,
        "findings": 0,
    }
    # The digest of a partition does not depend on how it is read.
    every = archived_rows(archived)
    for number in range(PARTITIONS):
        of_it = every.filter(pc.field("partition") == number)
        assert report["details"]["ranges"][f"s/clean/{number}"]["digest"] == f"{digest(of_it):016x}"
    findings, ranges = (tmp_path / path for path in report["details"]["written"])
    assert findings.read_text() == ""
    rows = [json.loads(line) for line in ranges.read_text().splitlines()]
    assert {(row["partition"], row["start"], row["end"]) for row in rows} == {
        (number, 0, COUNT) for number in range(PARTITIONS)
    }
    # Merged files have several partitions. Their messages are compared all the same.
    copied = tmp_path / "copied"
    shutil.copytree(archived, copied)
    assert (
        COMPACT.main(["--dest", str(copied), "--min-files", "2", "--older-than", "0s", "--log-level", "warning"]) == 0
    )
    merged = audit(capsys, *of(place, "--topics", "clean", "--archive", str(copied)), "--fail-on", "info")
    assert merged["counts"]["files"] == merged["counts"]["files_compared"] == len(DeltaLakeTable(str(copied)).files())
    assert merged["counts"]["files"] <= 2, "of one day, or of two"
    # Only the requested checks run.
    keys = audit(capsys, *of(place, "--topics-pattern", "cl.*", "--checks", "null-key,size", "--size-limit", "899"))
    assert {(one["check"], one["level"]) for one in keys["findings"]} == {("null-key", "warning"), ("size", "warning")}
    assert keys["counts"]["findings"] == PARTITIONS * (1 + COUNT)
    some = audit(capsys, *of(place, "--topics", "clean", "--sample", "0.5", "--checks", "gaps,dup-id"))
    assert 0 < some["counts"]["ranges"] < PARTITIONS
    plan = audit(capsys, *of(place, "--topics", "clean", "--archive", str(archived), "--dry-run"))
    assert plan["counts"] == {"partitions": PARTITIONS, "messages": PARTITIONS * COUNT, "files": files}


def test_each_fault_of_a_topic_is_found_at_its_place(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    report = audit(capsys, *of(place, "--topics", "faulty"), code=3)
    assert report["status"] == "findings"
    log = planted.sealed(place.server.partition_directory(0, 1, 8))
    first, following = planted.offset_of(log, 0), planted.offset_of(log, -1) + 1
    at = first + planted.INSIDE
    found = {
        (one["check"], one["level"], one["where"]["partition"], one["where"]["offset"], one["where"].get("until"))
        for one in report["findings"]
    }
    assert found == {
        # A node looks for each message at the end of the preceding one, and returns none that is missing. After a
        # missing message the node continues behind the message that stands in its place.
        ("checksum", "error", 0, at, at + 2),
        ("checksum", "error", 1, at, at + 1),
        ("dup-id", "error", 2, at, None),
        ("order", "error", 3, at, None),
        ("checksum", "error", 4, at, at + 1),
        ("checksum", "error", 5, first, following),
    }
    (twice,) = (one for one in report["findings"] if one["check"] == "dup-id")
    assert twice["where"]["first"] == {"partition": 2, "offset": first + 3}
    (back,) = (one for one in report["findings"] if one["check"] == "order")
    assert re.search(rf"message {at} is (1:00:00|0:5\d:\d\d)", back["message"])
    assert report["counts"]["rows"] == PARTITIONS * COUNT - 2 - 1 - 1 - (following - first)
    only = audit(capsys, *of(place, "--topics", "faulty", "--checks", "order", "--fail-on", "never"))
    assert [one["check"] for one in only["findings"]] == ["order"]


def test_ids_of_messages_that_remain_are_compared(spark: SparkSession, place: Place) -> None:
    """Check messages that retention removes between the two reads: part of a range, and a range as a whole."""
    client = place.connected()
    client.create_topic("s", "shrunk", 1)
    for _ in range(0, COUNT, 10):
        client.send("s", "shrunk", [b"x" * 900] * 10, partition=0)
    client.close()
    for _ in range(2):
        place.send_with("shrunk", 77, b"twice", [], 7_000_000)
    with RawConnection.as_root(place.server.address) as connection:
        topic = frames.ident("s") + frames.ident("shrunk")
        connection.ok(Code.DELETE_SEGMENTS, topic + frames.u32(0) + frames.u32(2))
    described = Planner(batch_options(place.options(subscribe="shrunk"))).describe()
    assert 6 < described.partitions["shrunk", 0].first_offset < COUNT
    config = AuditConfig(
        servers=place.server.grpc_address, username=USERNAME, password_env=PASSWORD_VARIABLE, stream="s"
    )
    scanned = Scanned(
        stream="s", topic="shrunk", partition=0, start=0, end=COUNT + 2, unreadable=[Unreadable(5, 6, "damaged")]
    )
    findings = Findings(frozenset({DUP_ID}))
    find_duplicates(spark, config, [scanned], findings)
    (twice,) = findings.listed
    assert (twice.check, twice.where["offset"]) == (DUP_ID, COUNT + 1)
    assert twice.where["first"] == {"partition": 0, "offset": COUNT}


def test_each_fault_of_an_archive_is_found_at_its_place(
    place: Place, archived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check files that are missing, truncated or changed, and a log that contradicts them."""
    start, end = CUTS[2], CUTS[3]
    before = DeltaLakeTable(str(archived)).files()
    there = {file.partitions.least: file for file in before if file.offsets.least == start}
    files = [there[number] for number in range(PARTITIONS)]
    paths = [archived / file.path for file in files]
    rows = [pq.ParquetFile(path).read() for path in paths]
    described = described_in(pq.read_metadata(paths[0]).metadata)
    key = PartitionKey("s", "clean", 0, described["incarnation"], described["generation"])
    keys = [key._replace(partition=number) for number in range(PARTITIONS)]

    paths[0].unlink()
    os.truncate(paths[1], files[1].bytes - 100)
    content = paths[2].read_bytes()
    said = described_in(pq.read_metadata(paths[2]).metadata)["digest"].encode()
    assert content.count(said) == 1
    paths[2].write_bytes(content.replace(said, b"0123456789abcdef"))
    # Damage in a column outside the digest: the checksum of its page is wrong.
    ids = pq.read_metadata(paths[3]).row_group(0).column(RAW_SCHEMA.get_field_index("id"))
    flip(paths[3], ids.data_page_offset + ids.total_compressed_size // 2)
    # A gap: the table lacks a file. An overlap: the table has an additional one. A loss: it lacks the last file.
    planted.edit_added(archived, files[4].path, lambda _: None)
    (extra,) = write(archived, keys[5], rows[5].slice(30, 20))
    add(archived, extra)
    last = next(file for file in before if file.partitions.least == 0 and file.offsets.most == COUNT - 1)
    planted.edit_added(archived, last.path, lambda _: None)
    # Contents that match the table but differ from the topic; and timestamps of another day.
    changed = rows[6].set_column(5, RAW_SCHEMA.field("value"), pa.array([b"other"] * rows[6].num_rows))
    planted.edit_added(archived, files[6].path, lambda _: None)
    (other,) = write(archived, keys[6], changed.cast(RAW_SCHEMA))
    add(archived, other)
    day = {"date": "2001-01-01"}
    planted.edit_added(archived, files[7].path, lambda of: of | {"partitionValues": of["partitionValues"] | day})
    # Messages that the topic never had.
    beyond = rows[8].set_column(0, RAW_SCHEMA.field("offset"), pa.array(range(COUNT, COUNT + rows[8].num_rows)))
    (more,) = write(archived, keys[8], beyond.cast(RAW_SCHEMA))
    archives.commit(archived, [more])

    report = audit(capsys, *of(place, "--topics", "clean", "--archive", str(archived)), code=3)
    found = {
        (one["where"]["partition"], one["where"]["path"], one["where"].get("offset"), one["where"].get("until"))
        for one in report["findings"]
    }
    assert {one["check"] for one in report["findings"]} == {"archive"}
    behind = next(file for file in before if file.partitions.least == 4 and file.offsets.least == end)
    assert found == {
        (0, files[0].path, None, None),
        (0, files[0].path, end, COUNT),
        (1, files[1].path, None, None),
        (2, files[2].path, None, None),
        (3, files[3].path, None, None),
        (4, behind.path, start, end),
        (5, extra.path, start + 30, start + 50),
        (6, other.path, start, end),
        (7, files[7].path, start, None),
        (8, more.path, COUNT, COUNT + end - start),
    }
    messages = {one["where"]["partition"]: one["message"] for one in report["findings"] if "until" not in one["where"]}
    assert messages[0] == "is missing"
    assert messages[1] == f"has {files[1].bytes - 100} bytes, and {files[1].bytes} in the table"
    assert messages[2].startswith("digest is 0123456789abcdef in its footer")
    (differs,) = (one["message"] for one in report["findings"] if one["where"]["partition"] == 6)
    assert differs == "its messages are not those of the topic"

    # Without servers an archive is compared with its own table.
    alone = audit(capsys, "--archive", str(archived), "--topics-pattern", "cl.*", code=3)
    assert {one["where"]["partition"] for one in alone["findings"]} == {0, 1, 2, 3, 4, 5, 7}
    assert "there is no Delta Lake table" in audit(capsys, "--archive", str(archived / "none"), code=1)["error"]


def add(directory: Path, file: ArchivedFile) -> None:
    """Have the table list a file, whatever it has already."""
    table = DeltaLakeTable(str(directory)).delta
    table.create_write_transaction([added(file)], "append", schema_of(RAW_SCHEMA), list(PARTITIONED_BY))
