"""SPK-3: the job `transform`: a query on each message, with exactly-once dead letters."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from job_runs import arguments, headers, refusals, run, send, stored, waited_for, written
from place import Place
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.running.job import FAILED
from pyspark_headrace.jobs.transform.job import JOB

SCHEMA = "carrier STRING NOT NULL, delay INT, leg STRUCT<origin: STRING NOT NULL, miles: DOUBLE>, day DATE"
SQL = """
SELECT carrier AS key, to_json(struct(carrier, delay * 2 AS twice, leg.miles, _message.offset AS at)) AS value
FROM input WHERE delay > 0 -- the late ones;
"""
REASON = "x-dead-letter-reason"
LOST_HEADERS = "x-dead-letter-headers"
NOT_UTF8, NOT_JSON, NO_FIT, NULL = "it is not UTF-8", "it is not JSON", "it does not fit the schema", "it is null"
BAD = {
    b"": "it is empty",
    b" ": NOT_JSON,
    b"\xff": NOT_UTF8,
    b'{"carrier":"\xff","delay":1}': NOT_UTF8,
    b'{"carrier":"A","delay":1': NOT_JSON,
    b'{"carrier":"A","delay":1} and more': NOT_JSON,
    b'{"carrier":"A"}{"carrier":"B"}': NOT_JSON,
    b'{"carrier":"A"}, "x": {"carrier":"B"}': NOT_JSON,
    b'{"carrier":"A"}], "z":[{"carrier":"B"}': NOT_JSON,
    b'{"carrier":"A"}, "e":true} junk': NOT_JSON,
    b"{'carrier':'A'}": NOT_JSON,
    b'[{"carrier":"A"}]': NO_FIT,
    b"7": NO_FIT,
    b"null": NULL,
    b'{"carrier":"A","delay":"1"}': NO_FIT,
    b'{"carrier":"A","delay":99999999999}': NO_FIT,
    b'{"carrier":"A","day":"yesterday"}': NO_FIT,
    b'{"carrier":"A","leg":7}': NO_FIT,
    b'{"delay":1}': "it has no `carrier`",
    b'{"carrier":null}': "it has no `carrier`",
    b'{"carrier":"A","leg":{"miles":1}}': "it has no `leg`.`origin`",
}
GOOD = [b'{"carrier":"A","delay":-1}', b'{"carrier":"A","leg":null,"more":[1]}', b' {"carrier":"A","carrier":"B"} \n']


def flights(seed: int, count: int) -> list[bytes]:
    """Generate messages, some of them bad."""
    chosen = random.Random(seed)
    wrong = list(BAD)
    values = []
    for number in range(count):
        if chosen.random() < 0.1:
            values.append(chosen.choice(wrong + GOOD))
        else:
            leg = {"origin": "JFK", "miles": chosen.randrange(100) / 4}
            values.append(
                json.dumps(
                    {"carrier": chosen.choice("ABCäZ"), "delay": chosen.randrange(-9, 9), "leg": leg, "n": number}
                ).encode()
            )
    return values


def expected(values: dict[int, list[bytes]]) -> tuple[Counter[Any], Counter[Any]]:
    """Compute the expected contents of both topics without Spark."""
    out: Counter[Any] = Counter()
    bad: Counter[Any] = Counter()
    for partition, sent in values.items():
        for offset, value in enumerate(sent):
            if value in BAD:
                # Empty messages are not written.
                bad[BAD[value], str(partition), str(offset), value or b"null"] += 1
                continue
            found = json.loads(value)
            if found.get("delay", 0) > 0:
                miles = found["leg"]["miles"]
                row = {"carrier": found["carrier"], "twice": found["delay"] * 2, "miles": miles, "at": offset}
                out[found["carrier"], json.dumps(row, sort_keys=True)] += 1
    return out, bad


def check(spark: SparkSession, place: Place, values: dict[int, list[bytes]], about: str) -> list[dict[str, str]]:
    """Check both topics; returns the headers of the dead letters."""
    out, bad = expected(values)
    rows = waited_for(spark, place, "out", out.total())
    assert Counter((row.key.decode(), json.dumps(json.loads(row.value), sort_keys=True)) for row in rows) == out, about
    letters: Counter[Any] = Counter()
    given = []
    for row in waited_for(spark, place, "dead", bad.total()):
        said = {header.key: bytes(header.value).decode() for header in row.headers}
        given.append(said)
        assert said["x-dead-letter-topic"] == "a"
        names = ("reason", "partition", "offset")
        letters[*(said[f"x-dead-letter-{name}"] for name in names), bytes(row.value)] += 1
    assert letters == bad, about
    return given


def files_in(directory: Path) -> dict[str, Any]:
    """Arguments of the job with the files that they name."""
    return {
        "topics": "a",
        "to_topic": "out",
        "dlq": "dead",
        "name": "flights",
        "sql": written(directory / "query.sql", SQL),
        "schema": written(directory / "schema.ddl", SCHEMA),
        "checkpoint": directory / "cp",
    }


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    return files_in(tmp_path)


def test_each_message_goes_to_its_topic_once(
    spark: SparkSession, place: Place, files: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    place.topic("a", 0, 0)
    place.topic("out", 0, 0)
    place.topic("dead", 0)
    values = {0: [*BAD, *GOOD, *flights(seed, 200)], 1: flights(seed + 1, 300)}
    for partition, sent in values.items():
        send(place, "a", partition, sent)
    # Headers that cannot be kept: encrypted ones, too large ones, and a second key.
    place.send_with("a", 5, b" ", b"\xff" * 32, 7_000_000)
    place.send_with("a", 6, b" ", headers({f"k{number}": "v" * 255 for number in range(300)}), 7_000_000)
    place.send_with("a", 7, b" ", headers({"headrace.key": "k"}) * 2, 7_000_000)
    values[0] += [b" "] * 3
    given = arguments(place, **files)
    report = run(JOB, capsys, [*given, "--dry-run"])
    assert (report["counts"], report["details"]["to"]) == ({"in": sum(map(len, values.values()))}, ["out", "dead"])
    assert stored(spark, place, "out") == []
    report = run(JOB, capsys, [*given, "--max-offsets-per-trigger", "400"])
    out, bad = expected(values)
    counts = {name: report["counts"][name] for name in ("in", "out", "bad", "behind")}
    assert counts == {"in": sum(map(len, values.values())), "out": out.total(), "bad": bad.total(), "behind": 0}
    assert (report["status"], report["counts"]["batches"]) == ("done", 2)
    letters = check(spark, place, values, f"seed {seed}")
    marked = {said["x-dead-letter-offset"]: said[LOST_HEADERS] for said in letters if LOST_HEADERS in said}
    end = len(values[0])
    assert marked == {str(end - 3): "unreadable", str(end - 2): "too large"}
    assert not any("headrace.key" in said for said in letters)
    assert run(JOB, capsys, given)["counts"]["in"] == 0
    # Rows that cannot be messages; and a dead letter, whose headers name its original position.
    query = "SELECT IF(length(key) = 3, key, NULL) AS value, repeat('k', 100 * length(key)) AS key, _message"
    raw = files | {"topics": "dead", "decode": "raw", "to_topic": "out", "dlq": "again", "name": "raw"}
    place.client.create_topic(place.stream, "again", 1)
    place.send_with("dead", 5, b"whole", headers({"headrace.key": "kkk", REASON: "old"}), 7_000_000)
    del raw["sql"], raw["schema"]
    words = arguments(
        place, **raw | {"sql_text": query + " FROM input", "checkpoint": files["checkpoint"].with_name("2")}
    )
    report = run(JOB, capsys, words)
    assert (report["counts"]["out"], report["counts"]["bad"]) == (0, bad.total() + 1)
    *others, last = waited_for(spark, place, "again", bad.total() + 1)
    said = {header.key: bytes(header.value).decode() for header in last.headers}
    assert said == {
        REASON: "its key has more than 255 bytes",
        "x-dead-letter-topic": "dead",
        "x-dead-letter-partition": "0",
        "x-dead-letter-offset": str(bad.total()),
    }
    assert json.loads(last.value)["value"] is not None
    assert {bytes(row.headers[0].value) for row in others} == {b"it has no value"}


@pytest.mark.long
@pytest.mark.parametrize("condition", ["", " WHERE carrier IS NOT NULL AND delay > 1"])
def test_without_a_topic_for_bad_messages_the_first_one_ends_the_job(
    spark: SparkSession, place: Place, files: dict[str, Any], capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    """Check that a bad message fails the job even if the query would filter it out."""
    place.topic("a", 0)
    place.topic("out", 0)
    send(place, "a", 0, [b'{"carrier":"A","delay":3}', b"nothing"])
    query = {"sql": None, "sql_text": f"SELECT carrier AS value FROM input{condition}"}
    report = run(JOB, capsys, arguments(place, **files | {"dlq": None} | query), FAILED)
    assert report["status"] == "failed"
    assert "bad message in topic a, partition 0, offset 1: it is not JSON" in report["error"]
    assert stored(spark, place, "out") == []


@pytest.mark.long
def test_wrong_arguments(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that all errors detectable in advance are reported before the start."""
    schema = written(tmp_path / "s", SCHEMA)
    basis = ["--servers", "127.0.0.1:1", "--stream", "s", "--checkpoint", str(tmp_path / "cp"), "--to-topic", "b"]
    reading = [*basis, "--topics", "a", "--schema", str(schema)]

    def text(sql: str) -> list[str]:
        return [*reading, "--sql-text", sql]

    refusals(
        JOB,
        capsys,
        {
            "exactly one of --sql and --sql-text": reading,
            "--sql /nowhere: [Errno 2]": [*reading, "--sql", "/nowhere"],
            "--schema is required": [*basis, "--topics", "a", "--sql-text", "x"],
            "--to-topic: this topic is one of those that are read": [*basis, "--topics", "b", "--schema", "x"],
            "--dlq and --to-topic": [*text("SELECT 1"), "--dlq", "b"],
            "--schema is for --decode json": [*text("SELECT 1"), "--decode", "raw"],
            "--sql-text: there is no query": text(" ; "),
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION]": text("SELECT carier AS value FROM input"),
            "[PARSE_SYNTAX_ERROR]": text("SELEC 1"),
            "extra input 'input'": text("DROP VIEW input"),
            "[TABLE_OR_VIEW_NOT_FOUND]": text("SELECT * FROM inputs"),
            "does not read input": text("SELECT 'x' AS value"),
            "Aggregate needs other rows": text("SELECT count(*) AS n FROM input"),
            "Distinct needs other rows": text("SELECT DISTINCT carrier FROM input"),
            "Sort needs other rows": text("SELECT carrier FROM input ORDER BY 1"),
            "GlobalLimit needs other rows": text("SELECT carrier FROM input LIMIT 3"),
            "cannot be joined with itself": text("SELECT x.carrier FROM input x JOIN input y ON x.carrier = y.carrier"),
            "several columns are named carrier": text("SELECT carrier, carrier FROM input"),
            "there are only key, value, id, origin_timestamp, headers": text(
                "SELECT carrier, carrier AS value FROM input"
            ),
            "nothing to make a value of": text("SELECT carrier AS key FROM input"),
            "column value is struct<": text("SELECT leg AS value FROM input"),
            "column id is string, and has to be binary": text("SELECT carrier AS value, carrier AS id FROM input"),
        },
    )
    wrong = {
        "x WRONG": "[UNSUPPORTED_DATATYPE]",
        "": "no columns",
        "{}": "it is not a schema",
        "a INT, A INT": "named a",
        "_x INT": "begin with _",
        "m MAP<INT, INT>": "INVALID_JSON_MAP_KEY_TYPE",
        "a ARRAY<STRUCT<b: INT NOT NULL>>": "cannot be NOT NULL",
    }
    for number, (ddl, said) in enumerate(wrong.items()):
        path = written(tmp_path / f"wrong{number}", ddl)
        refusals(
            JOB, capsys, {said: [*basis, "--topics", "a", "--schema", str(path), "--sql-text", "SELECT 1 FROM input"]}
        )
    assert not (tmp_path / "cp").exists()
    assert not spark.catalog.tableExists("input")
