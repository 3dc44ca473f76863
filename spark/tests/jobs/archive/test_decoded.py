"""SPK-3: JSON values into columns, and the handling of bad values."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from archiving import Runner, archived_rows
from hypothesis import given, settings
from place import Place
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.compatibility.protocol.raw import eventually

from headrace_core import decode_user_headers
from pyspark_headrace.jobs.archive import dead_letters
from pyspark_headrace.jobs.archive.decoding import Decoding, InvalidValue, decoding_of
from pyspark_headrace.jobs.records.schemas import read_schema
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.job import FAILED, WRONG_ARGUMENTS
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.table import Batch
from pyspark_headrace.read.splits import NOTHING

SCHEMA = Decoding(
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("days", pa.list_(pa.date32())),
            pa.field("inner", pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.bool_())])),
        ]
    )
)
EMPTY_AT = 193


def values(*of: bytes) -> pa.Array:
    return pa.array(of, pa.binary())


def test_values_become_columns() -> None:
    good, bad = SCHEMA.decode(
        values(
            b'{"id":1,"name":"\xc3\xa9\\n","at":"2026-11-21T10:00:00+02:00","price":"1.25","days":["2026-01-31",null]}',
            b' {"id": 2,\n "unknown": [{"id": 3}], "inner": {"x": -Inf, "z": 0}}\r\n',
        )
    )
    assert bad == []
    nothing = dict.fromkeys(("name", "at", "price", "days", "inner"))
    at = datetime.datetime(2026, 11, 21, 8, tzinfo=datetime.UTC)
    assert good.to_pylist() == [
        nothing
        | {
            "id": 1,
            "name": "é\n",
            "at": at,
            "price": decimal.Decimal("1.25"),
            "days": [datetime.date(2026, 1, 31), None],
        },
        nothing | {"id": 2, "inner": {"x": -math.inf, "y": None}},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is empty"),
        (b" ", "Expecting value"),
        (b"[1]", "not a JSON object"),
        (b'{"id":1}{"id":1}', "Extra data"),
        (b'{"id":{"x":1}', "Expecting ',' delimiter"),
        (b'"id":3}', "Extra data"),
        (b'{"id":1,"name":"\xff"}', "utf-8"),
        (b'{"id":1,"id":2}', "specified twice"),
        (b"{}", "it has no id"),
        (b'{"id":1.5}', "1.5"),
        (b'{"id":"1"}', "from number to string"),
        (b'{"id":9223372036854775808}', "9223372036854775808"),
        (b'{"id":1,"price":1.255}', "scale 3"),
        (b'{"id":1,"days":["yesterday"]}', "yesterday"),
        (b'{"id":1,"name":NaN}', "from string to number"),
        (b'{"id":1,"unknown":' + b"[" * 5000 + b"]" * 5000 + b"}", ""),
    ],
)
def test_values_that_are_something_else(value: bytes, reason: str) -> None:
    """Check that a bad value is detected regardless of its neighbours, and that no other value is lost."""
    fine = [b'{"id":%d}' % number for number in range(4)]
    good, bad = SCHEMA.decode(values(*fine[:2], value, *fine[2:]))
    alone = SCHEMA.decode(values(value))
    if not reason:
        # The parser decides about the maximum depth, independently of other values.
        assert len(bad) == len(alone[1])
        return
    assert [one.row for one in bad] == [2]
    assert reason in bad[0].reason
    assert good.field("id").to_pylist() == [0, 1, 2, 3]
    assert [one.reason for one in alone[1]] == [bad[0].reason]


PIECES = st.sampled_from(
    [
        b"{",
        b"}",
        b'{"id":1}',
        b'{"id":2,',
        b'"name":"a"}',
        b",",
        b"\n",
        b'"',
        b" ",
        b"[",
        b'{"id":',
        b'{"x":',
        b"1",
        b"Inf",
    ]
)


@settings(deadline=None)
@given(st.lists(st.lists(PIECES, max_size=4).map(b"".join), max_size=12))
def test_what_is_bad_does_not_depend_on_the_rest(pieces: list[bytes]) -> None:
    good, bad = SCHEMA.decode(values(*pieces))
    wrong = {one.row for one in bad}
    alone = [SCHEMA.decode(values(piece)) for piece in pieces]
    assert wrong == {row for row, (_, found) in enumerate(alone) if found}
    assert good.to_pylist() == [found[0].as_py() for found, bad_ones in alone if not bad_ones]
    for row, piece in enumerate(pieces):
        if row not in wrong:
            assert isinstance(json.loads(piece), dict)


def decoding_in(directory: Path, text: str) -> Decoding:
    """Return the decoder for a schema file with this text."""
    (directory / "columns").write_text(text, encoding="utf-8")
    return decoding_of(read_schema(str(directory / "columns")))


def test_schemas_that_json_has_nothing_for(spark: SparkSession, tmp_path: Path) -> None:
    for ddl, what in (
        ("a MAP<STRING, INT>", "a: JSON cannot be converted"),
        ("a STRUCT<b: INT NOT NULL>", "a.b: only columns"),
    ):
        with pytest.raises(ValueError, match=what):
            decoding_in(tmp_path, ddl)
    assert decoding_in(tmp_path, "a INT NOT NULL, b ARRAY<STRUCT<c: DATE>>").schema.field("a").nullable is False


def test_schemas_as_json(spark: SparkSession, tmp_path: Path) -> None:
    """Check that Spark's JSON schemas are equivalent to DDL."""
    ddl = (
        "id BIGINT NOT NULL, name STRING, at TIMESTAMP, price DECIMAL(10, 2), days ARRAY<DATE>, "
        "inner STRUCT<x: DOUBLE, y: BOOLEAN>"
    )
    described = StructType.fromDDL(ddl).json()
    assert json.loads(described)["type"] == "struct"
    assert decoding_in(tmp_path, described) == decoding_in(tmp_path, ddl) == SCHEMA
    strict = described.replace('"containsNull":true', '"containsNull":false')
    assert strict != described
    with pytest.raises(ArgumentError, match="days: what is inside of lists and maps cannot be NOT NULL"):
        decoding_in(tmp_path, strict)


def test_parts_that_dead_letters_cannot_keep() -> None:
    """Check an empty value, headers that are unreadable or too large, an earlier letter's mark, and a second key."""
    large = [{"key": "k", "value": b"v" * 255}] * 300
    marked = [
        {"key": "k", "value": b"v"},
        {"key": "x-dead-letter-headers", "value": b"unreadable"},
        {"key": "headrace.key", "value": b"second"},
    ]
    columns = {
        "offset": [5, 6, 7, 8],
        "key": [None] * 4,
        "value": [b"", b"v", b"v", b"v"],
        "origin_timestamp": [None] * 4,
        "headers": [None, large, [], marked],
    }
    messages = pa.RecordBatch.from_pydict(columns, pa.schema([RAW_SCHEMA.field(name) for name in columns]))
    split = replace(NOTHING, stream="s", topic="t", partition_id=3)
    found = dead_letters.letters(messages, [InvalidValue(row, "bad") for row in range(4)], split).to_pylist()
    assert [row["value"] for row in found] == [b"null", b"v", b"v", b"v"]
    headers = [{header["key"]: header["value"] for header in row["headers"]} for row in found]
    assert [said["x-dead-letter-offset"] for said in headers] == [b"5", b"6", b"7", b"8"]
    assert [said.get("x-dead-letter-headers") for said in headers] == [b"unreadable", b"too large", None, None]
    assert [said.get("k") for said in headers] == [None, None, None, b"v"]
    assert not any("headrace.key" in said for said in headers)


def send(place: Place, topic: str, partition: int, payloads: list[bytes]) -> None:
    place.client.send(place.stream, topic, payloads, partition=partition)


def letters(place: Place, topic: str) -> list[tuple[bytes, dict[str, bytes]]]:
    client = place.connected()
    found = []
    for partition in range(len(client.topic(place.stream, topic).partitions)):
        for message in client.poll(place.stream, topic, partition, strategy="offset", value=0, count=10_000).messages:
            headers = decode_user_headers(message.user_headers) or []
            found.append((bytes(message.payload), {name[1].decode(): value[1] for name, value in headers}))
    client.close()
    return found


def order(partition: int, at: int) -> bytes:
    """Value of a message: every tenth one is bad, and the last of these is empty."""
    if at == EMPTY_AT:
        return b""
    return b"{oops %d" % at if at % 10 == 3 else b'{"id":%d,"name":"n%d"}' % (at, partition)


@pytest.fixture
def orders(place: Place, tmp_path: Path) -> Place:
    """Topic with two partitions, with bad values."""
    place.client.create_topic(place.stream, "a", 2)
    place.client.create_topic(place.stream, "bad", 2)
    for partition in range(2):
        send(place, "a", partition, [order(partition, at) for at in range(200)])
    (tmp_path / "schema").write_text("id BIGINT NOT NULL, name STRING\n", encoding="utf-8")
    return place


@pytest.mark.long
def test_bad_records(
    spark: SparkSession,
    orders: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Runner(orders, tmp_path, capsys, mode="decoded", schema=str(tmp_path / "schema"), name="orders")
    failed = run(FAILED)
    assert "BadRecordError" in failed["error"]
    assert "offset 3: Expecting property name" in failed["error"]
    assert DeltaLakeTable(str(tmp_path / "archive")).files() == []

    columns = [("id", "long", False), ("name", "string", True)]
    fields = [{"name": name, "type": kind, "nullable": nullable, "metadata": {}} for name, kind, nullable in columns]
    (tmp_path / "json").write_text(json.dumps({"type": "struct", "fields": fields}), encoding="utf-8")
    counted = run(
        on_bad_record="count",
        schema=str(tmp_path / "json"),
        dest=str(tmp_path / "counted"),
        checkpoint=str(tmp_path / "counted-cp"),
    )
    assert (counted["counts"]["rows"], counted["counts"]["bad_records"]) == (360, 40)
    assert [found["level"] for found in counted["findings"]] == ["warning"]
    rows = archived_rows(tmp_path / "counted").sort_by([("partition", "ascending"), ("offset", "ascending")])
    good = [at for at in range(200) if at % 10 != 3]
    assert rows.column("value").to_pylist() == [
        {"id": at, "name": f"n{partition}"} for partition in range(2) for at in good
    ]
    assert rows.column("offset").to_pylist() == good * 2
    assert not DeltaLakeTable(str(tmp_path / "counted")).is_raw

    # The dead letters are committed, and then the archive fails. The repeated batch adds no dead letters.
    once = iter([StoreError("a test has this commit fail")])
    commit = DeltaLakeTable.commit

    def failing(self: DeltaLakeTable, batch: Batch) -> bool:
        for error in once:
            raise error
        return commit(self, batch)

    monkeypatch.setattr(DeltaLakeTable, "commit", failing)
    again = {"on_bad_record": "dlq:bad", "checkpoint": str(tmp_path / "cp2"), "max_offsets_per_trigger": "300"}
    interrupted = run(FAILED, **again)
    assert "a test has this commit fail" in interrupted["error"]
    done = run(**again)
    assert (done["counts"]["rows"], done["counts"]["dead_letters"]) == (360, 40)
    assert done["counts"]["batches"] == 2
    # A commit becomes visible a moment later.
    eventually("all dead letters can be read", lambda: len(letters(orders, "bad")) >= 40)
    found = letters(orders, "bad")
    assert Counter(payload for payload, _ in found) == Counter(
        {b"{oops %d" % at: 2 for at in range(200) if at % 10 == 3 and at != EMPTY_AT} | {b"null": 2}
    )
    places: list[Any] = [
        (int(reported["x-dead-letter-partition"]), int(reported["x-dead-letter-offset"])) for _, reported in found
    ]
    assert sorted(places) == [(partition, at) for partition in range(2) for at in range(3, 200, 10)]
    assert {reported["x-dead-letter-topic"] for _, reported in found} == {b"a"}
    reasons = {payload: reported["x-dead-letter-reason"] for payload, reported in found}
    assert reasons.pop(b"null") == b"it is empty"
    assert all(reason.startswith(b"Expecting property name") for reason in reasons.values())
    assert archived_rows(tmp_path / "archive").num_rows == 360


def test_arguments(spark: SparkSession, orders: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Runner(orders, tmp_path, capsys)
    for name, text in (("wrong", "id BIGNUMBER"), ("twice", "id INT, ID INT"), ("odd", '{"type": "struct"}')):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for more, said in (
        ({"topics_pattern": "."}, "exactly one of --topics and --topics-pattern"),
        ({"compression": "zstd:23"}, "zstd with a level from 1 to 22"),
        ({"compression": "snappy:1"}, "snappy alone"),
        ({"format": "iceberg"}, "--catalog is required"),
        ({"format": "iceberg", "catalog": "sqlite:///x", "table": "t"}, "NAMESPACE.TABLE"),
        ({"table": "a.b"}, "are for --format iceberg"),
        ({"catalog_properties": "=x"}, "name=value,name=value"),
        ({"mode": "decoded"}, "--schema is required"),
        ({"mode": "decoded", "schema": str(tmp_path / "none")}, "--schema"),
        ({"mode": "decoded", "schema": str(tmp_path / "wrong")}, "--schema"),
        ({"mode": "decoded", "schema": str(tmp_path / "twice")}, "several columns are named id"),
        ({"mode": "decoded", "schema": str(tmp_path / "odd")}, "it is not a schema"),
        ({"on_bad_record": "count"}, "are for --mode decoded"),
        ({"on_bad_record": "dlq:"}, "fail, count or like dlq:TOPIC"),
        ({"mode": "decoded", "schema": "s", "on_bad_record": "dlq:a"}, "among those that are archived"),
        ({"max_file_age": "10m"}, "is for --trigger interval"),
        ({"partition_by": "hour"}, "--partition-by: 'hour' is not 'date'"),
    ):
        assert said in run(WRONG_ARGUMENTS, **more)["error"]
