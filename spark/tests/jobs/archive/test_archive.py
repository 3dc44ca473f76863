"""SPK-3: topics into archives: each message once, despite repeated batches and recreated topics."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from archiving import Runner, archived_rows, arguments, forget_last_commit, same_as_consumed
from place import Place
from pyspark.sql import SparkSession
from tests.compatibility.protocol.raw import RawConnection

from headrace_core import encode_send_messages, encode_user_headers
from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.archive.config import ArchiveConfig
from pyspark_headrace.jobs.archive.job import source_options
from pyspark_headrace.jobs.running.arguments import parsed
from pyspark_headrace.jobs.running.job import FAILED
from pyspark_headrace.jobs.tables.columns import RAW_COLUMNS
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.options.reading import stream_options


def send_with_keys(place: Place, topic: str, keys: list[bytes]) -> None:
    headers = [
        encode_user_headers([(("string", b"colour"), ("string", b"red")), (("string", b"headrace.key"), ("raw", key))])
        for key in keys
    ]
    with RawConnection.as_root(place.server.address) as connection:
        messages = [(number + 1, b"with %d" % number, header) for number, header in enumerate(headers)]
        connection.ok(
            *encode_send_messages(messages, stream=place.stream, topic=topic, partition=3, origin_timestamp_micros=1)
        )


def test_each_message_once(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.topic("a", 3000, 2000, 0, 10)
    send_with_keys(place, "a", [b"k1", b"k2"])
    dest, checkpoint = tmp_path / "archive", tmp_path / "cp"
    run = Runner(place, tmp_path, capsys, name="eu")

    would = run(dry_run=True)
    assert would["counts"]["rows"] == 5012
    assert would["details"]["ranges"] == {"a": {"0": [0, 3000], "1": [0, 2000], "3": [0, 12]}}
    assert not dest.exists()

    first = run(max_offsets_per_trigger="2000")
    assert (first["status"], first["findings"]) == ("done", [])
    assert first["details"]["ranges"] == would["details"]["ranges"]
    assert first["counts"]["rows"] == 5012
    assert first["counts"]["batches"] == 3
    assert first["counts"]["behind"] == 0
    same_as_consumed(archived_rows(dest), place)
    table = DeltaLakeTable(str(dest))
    files = table.files()
    assert (first["counts"]["files"], first["counts"]["bytes"]) == (len(files), sum(file.bytes for file in files))
    # Sorted, described, with page checksums, and readable by any Parquet reader.
    for file in files:
        found = pq.ParquetFile(dest / file.path, page_checksum_verification=True)
        assert found.schema_arrow.names == list(RAW_COLUMNS)
        rows = found.read()
        assert rows.column("offset").to_pylist() == list(range(file.offsets.least, file.offsets.most + 1))
        assert found.metadata.metadata[b"headrace.digest"] == b"%016x" % digest(rows)
        assert {found.metadata.row_group(0).column(at).compression for at in range(8)} == {"ZSTD"}
    seen = spark.read.parquet(str(dest))
    assert seen.where("partition = 3").count() == 12
    row = seen.where("partition = 3 AND offset = 11").first()
    assert (bytes(row.key), bytes(row.value), row.topic) == (b"k2", b"with 1", "a")
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("colour", b"red")]

    # No new messages: no commit.
    again = run()
    assert (again["counts"]["batches"], again["counts"]["files"]) == (0, 0)
    assert DeltaLakeTable(str(dest)).version == table.version
    # A repeated micro-batch, followed by new messages.
    forget_last_commit(checkpoint)
    place.send("a", 2, range(500))
    later = run()
    assert (later["counts"]["repeated"], later["counts"]["batches"], later["counts"]["rows"]) == (1, 1, 500)
    assert later["details"]["ranges"] == {"a": {"2": [0, 500]}}
    same_as_consumed(archived_rows(dest), place)
    # Without its checkpoint a query would start again and archive all messages twice.
    version = DeltaLakeTable(str(dest)).version
    other = run(FAILED, checkpoint=tmp_path / "other")
    assert "OverlapError" in other["error"]
    assert DeltaLakeTable(str(dest)).version == version


def test_a_topic_that_is_made_anew(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.topic("a", 300)
    run = Runner(place, tmp_path, capsys)
    run()
    before = archived_rows(tmp_path / "archive")
    place.client.delete_topic(place.stream, "a")
    place.topic("a", 500, prefix="new ")
    lost = run(FAILED)
    assert "DataLossError" in lost["error"]
    assert "was purged or created again" in lost["error"]
    # Another checkpoint does not continue the archive either, not even in a dry run.
    for is_dry in (True, None):
        other = run(FAILED, checkpoint=tmp_path / "other", dry_run=is_dry)
        assert "TopicRecreatedError" in other["error"]
    assert archived_rows(tmp_path / "archive").equals(before)


def test_how_many_messages_fill_files(place: Place, tmp_path: Path) -> None:
    place.topic("a", 2000, 0, 2000, prefix="x" * 900)
    more = {"trigger": "interval:30s", "max_file_age": "10m", "target_file_mb": "10"}
    config = parsed(ArchiveConfig, arguments(place, tmp_path, **more))
    found = stream_options(source_options(config))
    # Three times the target size from the log, for each of the two non-empty partitions.
    assert found.max_trigger_delay_ms == 600_000
    assert found.min_offsets_per_trigger == pytest.approx(2 * 3 * (10 << 20) / 1000, rel=0.1)
    limited = parsed(ArchiveConfig, arguments(place, tmp_path, **more, max_offsets_per_trigger="500"))
    assert stream_options(source_options(limited)).min_offsets_per_trigger == 500
    at_once = parsed(ArchiveConfig, arguments(place, tmp_path, trigger="interval:30s"))
    assert stream_options(source_options(at_once)).min_offsets_per_trigger is None
