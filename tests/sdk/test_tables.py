"""A scan of a part of a topic makes the server read that part alone (USE-9)."""

import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import headrace
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

MESSAGES = 250_000
"""Some 40 MB with their headers, while at most 4 MB are read beyond the end of a range."""


def counter(server: ServerProcess, name: str) -> float:
    with urllib.request.urlopen(f"{server.http_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def moment() -> datetime:
    """A time after everything that was appended, and before everything that will be."""
    now = datetime.now(UTC)
    while (datetime.now(UTC) - now).total_seconds() < 0.002:
        pass
    return now


def test_a_range_of_time_is_read_alone(tmp_path: Path) -> None:
    batch = [bytes(100)] * 1000
    with ServerProcess(tmp_path / "data") as server:
        with headrace.connect(url_of(server.address)) as client:
            client.create_stream("s")
            client.create_topic("s", "t", partitions=1)
            moments = []
            with client.producer("s", "t") as producer:
                for number in range(MESSAGES // len(batch)):
                    if number in {100, 105}:
                        producer.flush()
                        moments.append(moment())
                    producer.send_many(batch)
            since, until = moments
        server.stop()
        # After a start no message is in memory.
        server.start()
        with headrace.connect(url_of(server.address)) as client:
            before = counter(server, "headrace_storage_read_bytes_total")
            table = client.scan("s", "t", since=since, until=until).table()
            assert table["offset"].to_pylist() == list(range(100_000, 105_000))
            stored = client.topic("s", "t").size_bytes
            read = counter(server, "headrace_storage_read_bytes_total") - before
            sent = counter(server, "headrace_polled_bytes_total")
        assert 5000 * 164 <= sent < stored / 3
        assert 5000 * 164 <= read < stored / 3
