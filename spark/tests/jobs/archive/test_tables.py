"""SPK-3: topics into tables of Iceberg and Delta Lake, verified with the libraries of these formats."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import job_runs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from archived import KEY, batch, messages
from archiving import Runner, archived_rows, consumed, forget_last_commit, same_as_consumed
from deltalake import DeltaTable
from place import Place
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.decoding import Decoding
from pyspark_headrace.jobs.audit.job import JOB as AUDIT
from pyspark_headrace.jobs.backfill.job import JOB as BACKFILL
from pyspark_headrace.jobs.running.job import FAILED
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import ArchiveError, OverlapError
from pyspark_headrace.jobs.tables.files import DECODED, RAW
from pyspark_headrace.jobs.tables.iceberg import IcebergTable, catalog_of
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Batch, Table, TopicRecreatedError
from pyspark_headrace.jobs.tables.writing import FileOptions, RangeWriter
from pyspark_headrace.jobs.usage.job import JOB as USAGE
from pyspark_headrace.read.splits import NOTHING


def catalog_uri(directory: Path) -> str:
    return f"sqlite:///{directory}/catalog.db"


def open_table(kind: str, directory: Path, decoding: Decoding | None = None) -> Table:
    match kind:
        case "iceberg":
            catalog = catalog_of(catalog_uri(directory), [("warehouse", str(directory))])
            rows = columns_of(kind, decoding).schema
            return IcebergTable(catalog, "lake.a", str(directory / "archive"), rows, create=True)
        case _:
            return DeltaLakeTable(str(directory / "archive"), columns_of(kind, decoding).schema, create=True)


def columns_of(kind: str, decoding: Decoding | None = None) -> Columns:
    return Columns(decoding, ("stream", "topic") if kind == "iceberg" else ())


def read(kind: str, directory: Path) -> pa.Table:
    """Read a table with the library of its format."""
    match kind:
        case "iceberg":
            return load_catalog("default", uri=catalog_uri(directory)).load_table("lake.a").scan().to_arrow()
        case _:
            return archived_rows(directory / "archive")


def versions(kind: str, directory: Path) -> int:
    match kind:
        case "iceberg":
            return len(load_catalog("default", uri=catalog_uri(directory)).load_table("lake.a").snapshots())
        case _:
            return DeltaTable(str(directory / "archive")).version()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_has_each_message_once(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    place.topic("a", 1000, 600)
    place.topic("b", 50)
    usual = {"format": kind, "topics": "a,b", "max_offsets_per_trigger": "1000"}
    if kind == "iceberg":
        usual |= {"catalog": catalog_uri(tmp_path), "table": "lake.a"}
    run = Runner(place, tmp_path, capsys, **usual)
    first = run()
    assert (first["counts"]["rows"], first["counts"]["batches"]) == (1650, 2)
    forget_last_commit(tmp_path / "cp")
    place.send("a", 1, range(600, 700))
    before = versions(kind, tmp_path)
    second = run()
    assert (second["counts"]["repeated"], second["counts"]["rows"]) == (1, 100)
    assert versions(kind, tmp_path) == before + 1
    rows = read(kind, tmp_path)
    for topic in ("a", "b"):
        same_as_consumed(rows.filter(pc.field("topic") == topic), place, topic)
    assert set(rows.column("stream").to_pylist()) == {place.stream}
    # No new messages: no commit. Another checkpoint would add all messages again.
    assert run()["counts"]["batches"] == 0
    other = run(FAILED, checkpoint=tmp_path / "other")
    assert "OverlapError" in other["error"]
    assert versions(kind, tmp_path) == before + 1

    # Other jobs read the table: what is archived is what the topics have.
    dest = str(tmp_path / "archive")
    named = {name: value for name, value in usual.items() if name in {"catalog", "table"}}
    checked = job_runs.run(AUDIT, capsys, job_runs.arguments(place, topics="a,b", archive=dest, **named))
    assert checked["findings"] == []
    assert checked["counts"]["files_compared"] == checked["counts"]["files"] == len(open_table(kind, tmp_path).files())
    replayed = {
        "from": f"archive:{dest}",
        "from_topic": "a",
        "to_topic": "c",
        "name": "c",
        "checkpoint": tmp_path / "c",
    }
    job_runs.run(BACKFILL, capsys, job_runs.arguments(place, **replayed, **named, create_topic=True))
    found = consumed(place, "c")
    for partition, sent in consumed(place, "a").items():
        assert [message.value for message in found[partition]] == [message.value for message in sent]
    now = datetime.now(UTC)
    period = {"from": f"archive:{dest}", "period": now.strftime("%Y-%m"), "until": now.isoformat(), "dry_run": True}
    assert job_runs.run(USAGE, capsys, job_runs.arguments(place, **period, **named))["counts"]["messages_in"] == 1750


def written(directory: Path, kind: str, start: int, count: int, decoding: Decoding | None = None) -> Batch:
    """A micro-batch with written, uncommitted files."""
    options = FileOptions(mode=RAW if decoding is None else DECODED)
    writer = RangeWriter(Store.open(str(directory / "archive"), create=True), KEY, start + count, options)
    split = replace(NOTHING, stream=KEY.stream, topic=KEY.topic)
    given = messages(start, count)
    if decoding is not None:
        values = (b'{"day":"2026-01-%02d","tags":[{"n":%d}]}' % (at + 1, at) for at in range(count))
        given = [one._replace(value=value) for one, value in zip(given, values, strict=True)]
    rows, found, _ = columns_of(kind, decoding).rows(batch(given), split)
    writer.write(rows, found)
    return Batch(job="test", query="q", number=0, files=writer.close(), ranges={KEY: (start, start + count)})


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_who_comes_second(tmp_path: Path, kind: str) -> None:
    table, late = open_table(kind, tmp_path), open_table(kind, tmp_path)
    first = written(tmp_path, kind, 0, 10)
    twin = written(tmp_path, kind, 0, 10)
    place = (KEY.stream, KEY.topic, KEY.partition)
    assert not late.has("q", 0)
    assert late.reached([place]) == {}
    assert table.commit(first)
    # The same micro-batch by another driver with a stale view, and again by the same driver.
    assert not late.commit(twin)
    assert not table.commit(twin)
    assert late.has("q", 0)
    assert not late.has("q", 1)
    assert late.reached([place])[place].end == 10
    # Another query with the same messages, or with messages of another topic of that name.
    with pytest.raises(OverlapError, match="up to 10 are archived"):
        late.commit(replace(written(tmp_path, kind, 5, 10), query="r"))
    anew = KEY._replace(incarnation="18")
    with pytest.raises(TopicRecreatedError, match="incarnation 17"):
        late.commit(replace(twin, query="r", ranges={anew: (0, 10)}))
    assert read(kind, tmp_path).num_rows == 10
    # The state is refreshed after a concurrent commit.
    stale = open_table(kind, tmp_path)
    assert stale.reached([place])[place].end == 10
    assert table.commit(replace(written(tmp_path, kind, 10, 5), number=1))
    assert stale.commit(replace(written(tmp_path, kind, 15, 5), number=2))
    assert sorted(read(kind, tmp_path).column("offset").to_pylist()) == list(range(20))


def test_an_iceberg_table_by_another_form_of_its_place(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path)
    table.commit(written(tmp_path, "iceberg", 0, 10))
    (tmp_path / "link").symlink_to(tmp_path / "archive")
    catalog = catalog_of(catalog_uri(tmp_path), [])
    assert IcebergTable(catalog, "lake.a", str(tmp_path / "link")).files() == table.files()
    assert IcebergTable(catalog, "lake.a", (tmp_path / "archive").as_uri()).files() == table.files()
    # Files that are elsewhere cannot be of the job.
    elsewhere = shutil.copy(tmp_path / "archive" / table.files()[0].path, tmp_path / "elsewhere.parquet")
    catalog.load_table("lake.a").add_files([f"file://{elsewhere}"])
    with pytest.raises(ArchiveError, match="has files that the job `archive` has not written"):
        table.files()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_decoded_values(tmp_path: Path, kind: str) -> None:
    tags = pa.list_(pa.struct([pa.field("n", pa.int32()), pa.field("price", pa.decimal128(12, 2))]))
    decoding = Decoding(pa.schema([pa.field("day", pa.date32(), nullable=False), pa.field("tags", tags)]))
    table = open_table(kind, tmp_path, decoding)
    assert table.commit(written(tmp_path, kind, 0, 5, decoding))
    rows = read(kind, tmp_path).sort_by("offset")
    assert rows.column("value").to_pylist() == [
        {"day": date(2026, 1, at + 1), "tags": [{"n": at, "price": None}]} for at in range(5)
    ]
    assert not open_table(kind, tmp_path, decoding).is_raw
    if kind == "delta":
        with pytest.raises(ArchiveError, match="has other columns"):
            open_table(kind, tmp_path)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_two_drivers_at_once(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check two drivers that both find a micro-batch missing, and then both commit it."""
    tables = [open_table(kind, tmp_path) for _ in range(2)]
    batches = [written(tmp_path, kind, 0, 10) for _ in tables]
    both = threading.Barrier(2, timeout=60)
    done: list[bool] = []

    def looked(check: Callable[..., None]) -> Callable[..., None]:
        def waits(*given: object) -> None:
            check(*given)
            if len(met) < 2:
                met.append(None)
                both.wait()

        return waits

    met: list[None] = []
    module = sys.modules[type(tables[0]).__module__]
    monkeypatch.setattr(module, "check", looked(module.check))  # type: ignore[attr-defined]
    threads = [
        threading.Thread(target=lambda table=table, batch=batch: done.append(table.commit(batch)))
        for table, batch in zip(tables, batches, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, True]
    assert read(kind, tmp_path).num_rows == 10
