"""SPK-3: traffic and storage of tenants, as measured by the nodes, the same in every run."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import archived
import job_runs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from place import Place
from pyspark.sql import SparkSession
from tests.ports import free_port

from headrace_core import encode_user_headers
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.catalog_pb2_grpc import CatalogStub
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.jobs.compact.job import JOB as COMPACT
from pyspark_headrace.jobs.running.job import DONE
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.usage.job import JOB
from pyspark_headrace.jobs.usage.period import HOUR_MICROS, Period, micros_of
from pyspark_headrace.jobs.usage.tally import Counted, hours_of, merged
from pyspark_headrace.jobs.usage.tally import Place as Of
from pyspark_headrace.jobs.usage.topics import Piece
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import parse
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.planning import Planner


def run(capfd: pytest.CaptureFixture[str], *given: str, code: int = DONE) -> dict[str, Any]:
    return job_runs.run(JOB, capfd, ["--log-level=warning", *given], code)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sums(rows: Sequence[dict[str, Any]], *names: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        found[tuple(row[name] for name in names)] += row["quantity"]
    return found


class Listeners(Gateway):
    """Gateway client for the tests."""

    def purge(self, stream: str, topic: str) -> None:
        request = v1.PurgeTopicRequest(stream=v1.Identifier(name=stream), topic=v1.Identifier(name=topic))
        self._call(lambda stub, **how: stub.PurgeTopic(request, **how), "purging", CatalogStub)


def listeners(place: Place) -> Listeners:
    return Listeners(parse(ConnectionOptions, place.options(), ignored=("stream",)))


def stored_bytes(place: Place, stream: str) -> dict[str, int]:
    """Storage of topics, as reported by partition nodes."""
    described = listeners(place).describe(stream, with_sizes=True)
    return {name: sum(part.size_bytes for part in topic.partitions) for name, topic in described.topics.items()}


def polled(place: Place, stream: str, topic: str) -> tuple[int, int]:
    """Return number and size of messages, polled one by one as by any consumer."""
    count = size = 0
    for partition in range(len(place.client.topic(stream, topic).partitions)):
        found = place.client.poll(stream, topic, partition, strategy="offset", value=0, count=10_000).messages
        count += len(found)
        size += sum(64 + len(message.user_headers) + len(message.payload) for message in found)
    return count, size


def appended(place: Place) -> dict[str, int]:
    """Counters of the node for appended messages."""
    text = urllib.request.urlopen(f"{place.server.http_url}/metrics", timeout=30).read().decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("headrace_appended_")]
    return {name.partition("{")[0]: int(float(value)) for name, _, value in lines}


@pytest.mark.long
def test_topics(spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = appended(place)
    chance = random.Random(7)
    streams = [place.stream, place.stream + "-2"]
    place.client.create_stream(streams[1])
    topics = [(streams[0], "shop"), (streams[0], "idle"), (streams[1], "acme.a"), (streams[1], "acme.b")]
    for stream, topic in topics:
        place.client.create_topic(stream, topic, 3)
        for _ in range(0 if topic == "idle" else 12):
            payloads = [chance.randbytes(chance.randrange(1, 3000)) for _ in range(chance.randrange(1, 60))]
            place.client.send(stream, topic, payloads, partition=chance.randrange(3))
    # A key is a header of the message, like these.
    place.client.send(streams[0], "shop", [b"value"], key=b"some key")
    place.send_with("shop", 5, b"v", [(("string", b"colour"), ("raw", b"red"))], 1_700_000_000_000_000)
    wanted = {(stream, topic): polled(place, stream, topic) for stream, topic in topics}
    sent = appended(place)
    time.sleep(0.01)
    now = datetime.now(UTC)

    (tmp_path / "tenants.json").write_text(
        json.dumps({"tenants": {"acme": [f"{streams[1]}/acme.*"], "möbel": [f"{streams[0]}/s?op"]}})
    )
    given = [
        *job_runs.arguments(place),
        *("--from", "topics", "--streams", ",".join(streams), "--period", now.strftime("%Y-%m")),
        *("--until", now.isoformat(), "--tenants", str(tmp_path / "tenants.json"), "--to-topic", "reports"),
    ]
    place.client.create_topic(place.stream, "reports", 1)
    report = run(capfd, *given, "--out", str(tmp_path / "out"), "--format", "json")
    files = {path.name: path for path in (tmp_path / "out").rglob("*.json")}
    assert sorted(files) == ["acme.json", "möbel.json"]
    assert sorted(report["details"]["files"]) == [f"{now:%Y-%m}-hour/acme.json", f"{now:%Y-%m}-hour/möbel.json"]
    # Topics without a tenant are left out and reported.
    assert {(one["check"], one["where"]["topic"]) for one in report["findings"]} == {
        ("tenants", "idle"),
        ("tenants", "reports"),
    }

    # The measurement equals the sent messages and the node's counters.
    every = [row for path in files.values() for row in rows_of(path)]
    assert {row["tenant"] for row in rows_of(files["acme.json"])} == {"acme"}
    assert {row["stream"] for row in rows_of(files["acme.json"])} == {streams[1]}
    assert {row["topic"] for row in rows_of(files["möbel.json"])} == {"shop"}
    found = sums(every, "stream", "topic", "kind")
    for (stream, topic), (count, size) in wanted.items():
        if count:
            assert found[stream, topic, "messages_in"] == count
            assert found[stream, topic, "bytes_in"] == size == stored_bytes(place, stream)[topic]
            rows = [row for row in every if (row["stream"], row["topic"], row["kind"]) == (stream, topic, "bytes_in")]
            part = now.minute * 60_000_000 + now.second * 1_000_000 + now.microsecond
            if len(rows) == 1:
                assert found[stream, topic, "stored_byte_hours"] == size * part // HOUR_MICROS
    # Equal to the node's counters of appended messages.
    counted = sums(every, "kind")
    assert (
        counted["messages_in",] == sent["headrace_appended_messages_total"] - before["headrace_appended_messages_total"]
    )
    assert not any(row["complete"] for row in every)

    check_reruns(spark, place, tmp_path, capfd, given, files)


def check_reruns(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    given: list[str],
    files: dict[str, Path],
) -> None:
    """Check that later messages and repeated runs yield the same bytes, in both formats."""
    first = {name: path.read_bytes() for name, path in files.items()}
    place.client.send(place.stream, "shop", [b"late"], partition=0)
    run(capfd, *given, "--out", str(tmp_path / "out"), "--format", "json")
    assert {name: path.read_bytes() for name, path in files.items()} == first
    parquet = []
    for directory in ("one", "two"):
        run(
            capfd,
            *[part for part in given if part not in {"--to-topic", "reports"}],
            "--out",
            str(tmp_path / directory),
        )
        parquet.append(next((tmp_path / directory).rglob("acme.parquet")).read_bytes())
    assert parquet[0] == parquet[1]
    table = pq.read_table(pa.BufferReader(parquet[0])).to_pylist()
    reported = [{**row, "start": row["start"].isoformat()} for row in table]
    assert sums(reported, "kind", "topic") == sums(rows_of(files["acme.json"]), "kind", "topic")

    # The topic has both reports: rows with equal tenant, time and kind have the same id.
    options = place.options(subscribe="reports", columns="id,key,value")
    by_id = defaultdict(list)
    for row in spark.read.format("headrace").options(**options).load().collect():
        assert json.loads(bytes(row.value))["tenant"] == bytes(row.key).decode()
        by_id[bytes(row.id)].append(json.loads(bytes(row.value)))
    assert len(by_id) == sum(len(rows_of(path)) for path in files.values())
    assert all(len(pair) == 2 and pair[0] == pair[1] for pair in by_id.values())


def test_a_topic_that_was_purged(
    place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    place.topic("a", 10)
    listeners(place).purge(place.stream, "a")
    place.send("a", 0, range(5))
    time.sleep(0.01)
    now = datetime.now(UTC)
    given = [*job_runs.arguments(place), "--from", "topics", "--streams", place.stream, "--period", f"{now:%Y-%m-%d}"]
    report = run(capfd, *given, "--until", now.isoformat(), "--dry-run", "--fail-on", "warning", code=3)
    assert report["counts"]["messages_in"] == 5
    assert report["counts"]["rows_incomplete"] == report["counts"]["rows"]
    (finding,) = report["findings"]
    assert (finding["check"], finding["where"]["topic"], finding["where"]["partition"]) == ("coverage", "a", 0)
    assert list(tmp_path.iterdir()) == []


def test_archives(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "archive"
    noon, minute = micros_of(datetime(2024, 2, 28, 12, tzinfo=UTC)), 60_000_000
    stored = {
        ("shop", "orders", 0): archived.messages(0, 1500, at=noon, step=minute, size=30),
        # The first messages were never archived.
        ("shop", "orders", 1): archived.messages(50, 100, at=noon + 90 * minute, step=minute, size=40),
        ("other", "things", 0): archived.messages(0, 40, at=noon - 30 * minute, step=minute, size=50),
    }
    for (stream, topic, number), of_it in stored.items():
        key = PartitionKey(stream, topic, number, "17", f"{number}.0")
        archived.commit(archive, archived.write(archive, of_it, key=key))
    wanted: Counter[tuple[str, ...]] = Counter()
    for (stream, topic, _), of_it in stored.items():
        for message in of_it:
            start = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=message.timestamp)).strftime(
                "%Y-%m-%dT%H:00:00Z"
            )
            headers = {b"n": b"%d" % message.offset} | ({} if message.key is None else {b"headrace.key": message.key})
            encoded = encode_user_headers([(("string", name), ("raw", value)) for name, value in headers.items()])
            wanted[stream, topic, start, "messages_in"] += 1
            wanted[stream, topic, start, "bytes_in"] += 64 + len(message.value) + len(encoded)

    # Small files of several partitions are merged into one.
    assert COMPACT.main(["--dest", str(archive), "--min-files", "2", "--log-level", "warning"]) == DONE
    given = ["--from", f"archive:{archive}", "--out", str(tmp_path / "out"), "--format", "json"]
    report = run(capfd, *given, "--period", "2024-02")
    rows = {tenant: rows_of(tmp_path / f"out/2024-02-hour/{tenant}.json") for tenant in ("shop", "other")}
    every = [row for of_it in rows.values() for row in of_it]
    assert sums(every, "stream", "topic", "start", "kind") == wanted
    assert all(row["tenant"] == row["stream"] == tenant for tenant, of_it in rows.items() for row in of_it)
    (finding,) = report["findings"]
    assert finding["where"] == {"stream": "shop", "topic": "orders", "partition": 1}
    assert "2024-02-28T13:00:00Z" in finding["message"]
    # A gap in one partition makes the topic incomplete up to the hour in which the partition begins. The last hour may
    # be incomplete, too.
    incomplete = {(row["topic"], row["start"][8:13]) for row in every if not row["complete"]}
    assert incomplete == {("orders", "28T12"), ("orders", "28T13"), ("orders", "29T12"), ("things", "28T12")}

    # A day is the sum of its hours, and complete if all of them are.
    run(capfd, *given, "--period", "2024-02", "--granularity", "day", "--streams", "shop")
    days = rows_of(tmp_path / "out/2024-02-day/shop.json")
    assert [row["start"] for row in days] == [
        day for day in ("2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z") for _ in range(2)
    ]
    by_day: Counter[tuple[str, ...]] = Counter()
    for (stream, _, start, kind), quantity in wanted.items():
        if stream == "shop":
            by_day[start[:10] + "T00:00:00Z", kind] += quantity
    assert sums(days, "start", "kind") == by_day
    assert not any(row["complete"] for row in days)
    day = run(capfd, *given, "--period", "2024-02-29", "--streams", "shop", "--dry-run")
    assert day["counts"]["messages_in"] == by_day["2024-02-29T00:00:00Z", "messages_in"]
    assert day["findings"] == []
    later = run(capfd, *given, "--period", "2024-03", "--dry-run")
    assert later["counts"]["rows"] == 0

    # A gap is reported with its location.
    key = PartitionKey("shop", "orders", 0, "17", "0.0")
    more = archived.messages(1510, 5, at=noon + 1600 * minute, step=minute)
    archived.commit(archive, archived.write(archive, more, key=key))
    report = run(capfd, *given, "--period", "2024-02", "--streams", "shop", code=3)
    holes = [one["where"] for one in report["findings"] if one["check"] == "archive"]
    assert holes == [{"stream": "shop", "topic": "orders", "partition": 0, "start": 1500, "end": 1510}]


def test_a_partition_that_has_moved(place: Place) -> None:
    """Check that a task finds the leader, and gets another ticket."""
    place.topic("a", 10)
    options = batch_options(place.options(subscribe="a", retry_intervalMs="5"))
    planner = Planner(options)
    (split,) = planner.splits({("a", 0): (0, 10)}, planner.describe(), is_batch=True)
    moved = replace(split, address=f"127.0.0.1:{free_port()}", ticket=split.ticket[:-4] + "AAAA")
    after = time.time_ns() // 1000 + HOUR_MICROS
    counted = Piece(moved, options, [1, after], lacks_first=False).count()
    assert counted == Piece(split, options, [1, after], lacks_first=False).count()
    assert counted.hours[1][0] == 10


def test_hours_are_sums_however_they_are_cut() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    bounds = Period.of("2024-02-29").hours(1 << 62)
    place = Of("shop", "orders")
    times = sorted(chance.choices(range(bounds[0] - HOUR_MICROS, bounds[-1]), k=400))
    sent = [(chance.randrange(3), at, chance.randrange(1, 100)) for at in times]
    cuts = sorted(chance.choices(range(401), k=5))
    parts = []
    for begin, end in zip([0, *cuts], [*cuts, 400], strict=True):
        for line in range(3):
            of_line = [(at, size) for number, at, size in sent[begin:end] if number == line]
            hours: dict[int, tuple[int, int]] = {}
            for at, size in of_line:
                if at >= bounds[0]:
                    start = at - at % HOUR_MICROS
                    count, before = hours.get(start, (0, 0))
                    hours[start] = (count + 1, before + size)
            parts.append(Counted(place, str(line), sum(size for at, size in of_line if at < bounds[0]), hours))
    chance.shuffle(parts)
    found = hours_of(merged(parts), bounds)
    for start, hour in found.items():
        inside = [size for _, at, size in sent if start <= at < start + HOUR_MICROS]
        assert (hour.messages, hour.bytes) == (len(inside), sum(inside)), f"seed {seed}"
        assert hour.stored_bytes == sum(size for _, at, size in sent if at < start + HOUR_MICROS), f"seed {seed}"
        assert hour.is_complete
        assert hour.is_stored_complete


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tenants", "Expected '='"),
        ("acme = []", "a table tenants is needed"),
        ("tenants.acme = []", "acme needs a list of patterns"),
        ('tenants.acme = ["acme"]', "acme needs a list of patterns"),
        ('tenants.a = ["*/orders"]\ntenants.b = ["shop/*"]', "shop/orders is of a and of b"),
    ],
)
def test_tenant_files_that_are_wrong(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "file.toml").write_text(text)
    archive = tmp_path / "archive"
    of_it = archived.messages(0, 5, at=micros_of(datetime(2024, 2, 28, tzinfo=UTC)))
    archived.commit(archive, archived.write(archive, of_it))
    given = [
        "--from",
        f"archive:{archive}",
        "--period",
        "2024-02",
        "--dry-run",
        "--tenants",
        str(tmp_path / "file.toml"),
    ]
    assert said in run(capfd, *given, code=2)["error"]


def test_arguments_that_are_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    least = ["--from", "archive:/nothing", "--period", "2024-02"]
    assert "--out or --to-topic is needed" in run(capfd, *least, code=2)["error"]
    assert "--servers is required" in run(capfd, *least, "--to-topic", "b", code=2)["error"]
    assert "--servers is required" in run(capfd, *least, "--from", "topics", "--dry-run", code=2)["error"]
    assert "topics or archive:URI" in run(capfd, *least, "--from", "topic:a", code=2)["error"]
    assert "a month like 2026-11" in run(capfd, *least, "--period", "2024", code=2)["error"]


def test_periods() -> None:
    month = Period.of("2026-12")
    assert month.end_micros - month.start_micros == 31 * 24 * HOUR_MICROS
    day = Period.of("2024-02-29")
    assert day.hours(1 << 62)[-1] == day.end_micros
    assert len(day.hours(1 << 62)) == 25
    assert day.hours(day.start_micros + 1) == [day.start_micros, day.start_micros + 1]
    assert day.hours(day.start_micros) == [day.start_micros]
    for text in ("2026", "2026-13", "2026-02-30", "2026-1", "2026-11-21T01", ""):
        with pytest.raises(Exception, match="a month like"):
            Period.of(text)
