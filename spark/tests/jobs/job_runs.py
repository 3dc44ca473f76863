"""Helpers that run jobs, and read the resulting topics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from place import Place
from pyspark.sql import Row, SparkSession

from pyspark_headrace.jobs.running.job import DONE, FOUND, WRONG_ARGUMENTS, Job


def arguments(place: Place, **more: Any) -> list[str]:
    """Build the arguments of a job on a stream; switches are True, and None values are left out."""
    options = place.options()
    given = {
        "servers": options["servers"],
        "username": options["username"],
        "password_env": options["passwordEnv"],
        "stream": place.stream,
        "log_level": "warning",
    } | more
    options = {f"--{name.replace('_', '-')}": value for name, value in given.items() if value is not None}
    return [name if value is True else f"{name}={value}" for name, value in options.items()]


def run(job: Job[Any], capture: pytest.CaptureFixture[str], words: Sequence[str], code: int = DONE) -> dict[str, Any]:
    """Run a job in this process and check its exit code; returns its report, or its error message."""
    capture.readouterr()
    found = job.main(words)
    said = capture.readouterr()
    assert found == code, said.out[-2000:] + said.err[-4000:]
    if code == WRONG_ARGUMENTS:
        assert not said.out
        return {"error": said.err}
    report: dict[str, Any] = json.loads(said.out)
    assert (report["error"] is None) == (code in {DONE, FOUND}), report["error"]
    return report


def send(place: Place, topic: str, partition: int, values: Iterable[Mapping[str, Any] | bytes]) -> None:
    """Append JSON objects, or bytes."""
    payloads = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    if payloads:
        place.client.send(place.stream, topic, payloads, partition=partition)


def headers(named: Mapping[str, str]) -> list[Any]:
    """Build headers as expected by `Place.send_with`."""
    return [(("string", name.encode()), ("string", text.encode())) for name, text in named.items()]


def stored(spark: SparkSession, place: Place, topic: str) -> list[Row]:
    """Return the messages of a topic, by partition and offset."""
    columns = "partition,offset,key,value,origin_timestamp,headers"
    frame = spark.read.format("headrace").options(**place.options(subscribe=topic, columns=columns)).load()
    return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))


def waited_for(spark: SparkSession, place: Place, topic: str, count: int) -> list[Row]:
    """Wait for a number of messages, and return them: a commit becomes visible a moment later."""
    from tests.compatibility.protocol.raw import eventually

    client = place.connected()
    eventually(
        f"{count} messages in {topic}",
        lambda: sum(part.messages_count for part in client.topic(place.stream, topic).partitions) >= count,
    )
    client.close()
    return stored(spark, place, topic)


def refusals(job: Job[Any], capsys: pytest.CaptureFixture[str], cases: Mapping[str, list[str]]) -> None:
    """Check that invalid arguments fail before any work, with an error message."""
    for text, words in cases.items():
        said = run(job, capsys, words, WRONG_ARGUMENTS)["error"]
        assert text in said, (words, text, said[-2000:])


def written(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.write_text(text, encoding="utf-8")
    return path
