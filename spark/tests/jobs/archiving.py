"""Helpers for the job `archive`, and checks of its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import job_runs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from archived import Message, digest_of
from deltalake import DeltaTable
from place import Place

from headrace_core import decode_user_headers
from pyspark_headrace.jobs.archive.job import JOB
from pyspark_headrace.jobs.running.job import DONE
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA

KEY_HEADER = b"headrace.key"


def arguments(place: Place, directory: Path, **more: Any) -> list[str]:
    """Arguments of the job."""
    given = {"topics": "a", "dest": directory / "archive", "checkpoint": directory / "cp"} | more
    return job_runs.arguments(place, **given)


class Runner:
    """Runs the job in this process and returns its report."""

    def __init__(self, place: Place, directory: Path, capsys: pytest.CaptureFixture[str], **usual: Any) -> None:
        self._place = place
        self._directory = directory
        self._capsys = capsys
        self._usual = usual

    def __call__(self, code: int = DONE, **more: Any) -> dict[str, Any]:
        return job_runs.run(JOB, self._capsys, arguments(self._place, self._directory, **self._usual | more), code)


def forget_last_commit(checkpoint: Path) -> None:
    """Restore the state of a driver that died after the commit, before recording the end of the micro-batch."""
    noted = [path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()]
    last = max(noted, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def consumed(place: Place, topic: str) -> dict[int, list[Message]]:
    """Return the messages by partition as read by an independent consumer."""
    client = place.connected()
    found: dict[int, list[Message]] = {}
    for partition in range(len(client.topic(place.stream, topic).partitions)):
        of_it = found[partition] = []
        offset = 0
        while messages := client.poll(
            place.stream, topic, partition, strategy="offset", value=offset, count=10_000
        ).messages:
            of_it.extend(
                Message(message.offset, message.timestamp_micros, key_of(message.user_headers), bytes(message.payload))
                for message in messages
            )
            offset = messages[-1].offset + 1
    client.close()
    return found


def key_of(headers: bytes) -> bytes | None:
    """Return the key of a message, which is one of its headers."""
    found = decode_user_headers(headers) if headers else []
    return next((bytes(value[1]) for name, value in found or () if name[1] == KEY_HEADER), None)


def same_as_consumed(rows: pa.Table, place: Place, topic: str = "a") -> None:
    """Check that each message occurs exactly once: by count, offsets and digest."""
    expected = consumed(place, topic)
    assert rows.num_rows == sum(len(messages) for messages in expected.values())
    assert (
        rows.select(["partition", "offset"]).group_by(["partition", "offset"]).aggregate([]).num_rows == rows.num_rows
    )
    for partition, messages in expected.items():
        of_it = rows.filter(pc.field("partition") == partition).sort_by("offset").select(RAW_SCHEMA.names)
        assert of_it.column("offset").to_pylist() == list(range(len(messages)))
        times = of_it.column("timestamp").cast(pa.int64()).to_pylist()
        found = [
            Message(*row)
            for row in zip(
                of_it.column("offset").to_pylist(),
                times,
                of_it.column("key").to_pylist(),
                of_it.column("value").to_pylist(),
                strict=True,
            )
        ]
        assert digest_of(found) == digest_of(messages)


def archived_rows(place: Path | str) -> pa.Table:
    """Return the rows of an archive, as the library of Delta Lake reads them."""
    return DeltaTable(str(place)).to_pyarrow_table()
