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

import planted
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
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
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
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
    archive = Archive.open(str(directory))
    given = place.options(subscribe="clean")
    frame = spark.read.format("headrace").options(**given, emit="ranges").schema("split BINARY").load()
    for row in frame.collect():
        split = Split.from_bytes(row["split"])
        rows = pa.Table.from_batches(read_range(split, batch_options(given), RAW_SCHEMA)).combine_chunks()
        key = key_of(split)
        for start, end in pairwise(CUTS):
            archive.commit(write(archive, key, rows.slice(start, end - start)), job="test")
    return directory


def key_of(split: Split) -> PartitionKey:
    generation = f"{split.incarnation}.{split.purge_epoch}"
    return PartitionKey(split.stream, split.topic, split.partition_id, str(split.topic_incarnation), generation)


def write(archive: Archive, key: PartitionKey, rows: pa.Table) -> list[ArchivedFile]:
    writer = archive.writer(key, 10**6)
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
    archive = Archive.open(str(archived))
    for key, of_it in archive.state().partitions.items():
        total = sum(digest(archive.read_table(file)) for file in of_it) % 2**64
        assert report["details"]["ranges"][f"s/clean/{key.partition}"]["digest"] == f"{total:016x}"
    findings, ranges = (tmp_path / path for path in report["details"]["written"])
    assert findings.read_text() == ""
    rows = [json.loads(line) for line in ranges.read_text().splitlines()]
    assert {(row["partition"], row["start"], row["end"]) for row in rows} == {
        (number, 0, COUNT) for number in range(PARTITIONS)
    }
    # The digest is unchanged after files were merged.
    copied = tmp_path / "copied"
    shutil.copytree(archived, copied)
    assert (
        COMPACT.main(["--dest", str(copied), "--min-files", "2", "--older-than", "0s", "--log-level", "warning"]) == 0
    )
    merged = audit(capsys, *of(place, "--topics", "clean", "--archive", str(copied)), "--fail-on", "info")
    assert (merged["counts"]["files"], merged["counts"]["files_compared"]) == (PARTITIONS, PARTITIONS)
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
    archive = Archive.open(str(archived))
    before = archive.state()
    keys = list(before.partitions)
    files = [before.partitions[key][2] for key in keys]
    numbers = [1 + number * (len(CUTS) - 1) + 2 for number in range(PARTITIONS)]
    rows = [archive.read_table(file) for file in files]
    paths = [archived / file.path for file in files]

    paths[0].unlink()
    os.truncate(paths[1], files[1].bytes - 100)
    content = paths[2].read_bytes()
    said = f"{files[2].digest:016x}".encode()
    assert content.count(said) == 1
    paths[2].write_bytes(content.replace(said, b"0123456789abcdef"))
    # Damage in a column outside the digest: the checksum of its page is wrong.
    ids = pq.read_metadata(paths[3]).row_group(0).column(RAW_SCHEMA.get_field_index("id"))
    flip(paths[3], ids.data_page_offset + ids.total_compressed_size // 2)
    # A gap: the log lacks a file. An overlap: the log lists an additional one.
    planted.edit_entry(archived, numbers[4], lambda entry: entry["add"].clear())
    (extra,) = write(archive, keys[5], rows[5].slice(30, 20))
    planted.edit_entry(archived, numbers[5], lambda entry: entry["add"].append(extra.to_json()))
    # Contents that match the log but differ from the topic; and timestamps of another day.
    changed = rows[6].set_column(5, RAW_SCHEMA.field("value"), pa.array([b"other"] * rows[6].num_rows))
    (other,) = write(archive, keys[6], changed.cast(RAW_SCHEMA))
    planted.edit_entry(archived, numbers[6], lambda entry: entry.update(add=[other.to_json()]))
    (shifted,) = write(archive, keys[7], rows[7])
    moved = shifted.to_json() | {"date": "2001-01-01"}
    planted.edit_entry(archived, numbers[7], lambda entry: entry.update(add=[moved]))
    # Messages that the topic never had.
    beyond = rows[8].set_column(0, RAW_SCHEMA.field("offset"), pa.array(range(COUNT, COUNT + rows[8].num_rows)))
    archive.commit(write(archive, keys[8], beyond.cast(RAW_SCHEMA)), job="test")

    report = audit(capsys, *of(place, "--topics", "clean", "--archive", str(archived)), code=3)
    found = {
        (one["where"]["partition"], one["where"]["path"], one["where"].get("offset"), one["where"].get("until"))
        for one in report["findings"]
    }
    assert {one["check"] for one in report["findings"]} == {"archive"}
    after = Archive.open(str(archived)).state().partitions
    start, end = CUTS[2], CUTS[3]
    assert found == {
        (0, files[0].path, None, None),
        (1, files[1].path, None, None),
        (2, files[2].path, None, None),
        (3, files[3].path, start, None),
        (4, after[keys[4]][-1].path, start, end),
        (5, extra.path, start + 30, start + 50),
        (6, other.path, start, end),
        (7, shifted.path, start, None),
        (8, after[keys[8]][-1].path, COUNT, COUNT + end - start),
    }
    messages = {one["where"]["partition"]: one["message"] for one in report["findings"]}
    assert messages[0] == "is missing"
    assert messages[1] == f"has {files[1].bytes - 100} bytes, and {files[1].bytes} in the log"
    assert messages[2].startswith("digest is 0123456789abcdef in its footer")
    assert messages[6] == "its messages are not those of the topic"

    # Without servers an archive is compared with its own log.
    alone = audit(capsys, "--archive", str(archived), "--topics-pattern", "cl.*", code=3)
    assert {one["where"]["partition"] for one in alone["findings"]} == {0, 1, 2, 3, 4, 5, 7}
    entry = archived / "_headrace/manifest" / f"{numbers[0]:020d}.json"
    entry.write_text(entry.read_text()[:-7])
    torn = audit(capsys, "--archive", str(archived), code=3)
    assert [one["where"] for one in torn["findings"]] == [{"path": f"_headrace/manifest/{numbers[0]:020d}.json"}]
    (archived / "empty").mkdir()
    assert audit(capsys, "--archive", str(archived / "empty"))["findings"] == []
