"""`headrace metadata` with a running replica and with its data directory (CTL-2)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests import command_line
from tests.command_line.schemas import validate
from tests.ports import free_port

from headrace_proto.catalog.v1 import COMPRESSION_ALGORITHM_NONE
from headrace_proto.cluster_token import HEADER, authorization
from headrace_proto.metadata.v1 import (
    Command,
    CreateStream,
    CreateTopic,
    DrainNode,
    ProposeRequest,
    RegisterNode,
    StateSnapshot,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

SECRET = "a secret of the cluster, of 32 bytes or more"


class Replica:
    def __init__(self, directory: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.data = directory / "data"
        self.secret_file = directory / "secret"
        self.secret_file.write_text(f"{SECRET}\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HEADRACE_METADATA_REPLICAS": self.address,
            "HEADRACE_METADATA_SECRET_FILE": str(self.secret_file),
        }
        settings = {
            "GRPC_ADDRESS": self.address,
            "CLUSTER_SECRET_FILE": str(self.secret_file),
            "SYSTEM_PATH": str(self.data),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace_metadata"],
            env=os.environ | {f"HEADRACE_METADATA_{name}": value for name, value in settings.items()},
        )

    def propose(self, *commands: Command) -> None:
        metadata = ((HEADER, authorization(SECRET, "headrace")),)
        with grpc.insecure_channel(self.address) as channel:
            for command in commands:
                request = ProposeRequest(command=command)
                MetadataStub(channel).Propose(request, metadata=metadata, timeout=30, wait_for_ready=True)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        result = command_line.run("metadata", *arguments, environment=self.environment | environment)
        return subprocess.CompletedProcess(
            result.args, result.returncode, result.stdout.decode(), result.stderr.decode()
        )

    def __call__(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    replica = Replica(tmp_path_factory.mktemp("metadata"))
    try:
        replica.propose(
            Command(create_stream=CreateStream(name="shop")),
            Command(create_topic=CreateTopic(stream_id=7, name="orders")),
        )
        yield replica
        replica.process.terminate()
        assert replica.process.wait(30) == 0
    finally:
        replica.process.kill()


def test_status_and_members(replica: Replica) -> None:
    (status,) = found = json.loads(replica("status", "--json"))
    validate("metadata-status", found)
    assert (status["state"], status["replica"], status["primary"], status["cluster"]) == ("primary", 0, 0, "headrace")
    assert status["version"] == 1
    assert status["applied"] == status["commit"] == status["op"] > 0
    assert replica.address in replica("status")
    (member,) = found = json.loads(replica("members", "--json"))
    validate("metadata-members", found)
    assert (member["replica"], member["connected"], member["primary"]) == (0, True, True)
    assert "yes" in replica("members")


def test_partition_nodes(tmp_path: Path) -> None:
    """CTL-2: the node registry, and the number of partitions on each node."""
    replica = Replica(tmp_path)
    try:
        replica.propose(
            *(
                Command(
                    register_node=RegisterNode(
                        name=name,
                        incarnation=1,
                        binary_address=f"{name}:8100",
                        grpc_address=f"{name}:8101",
                        shards=4,
                        lease_micros=60_000_000,
                    )
                )
                for name in ("north", "south")
            ),
            Command(drain_node=DrainNode(node_id=2, is_draining=True)),
            Command(create_stream=CreateStream(name="shop")),
            Command(
                create_topic=CreateTopic(
                    name="orders",
                    partitions_count=3,
                    compression=COMPRESSION_ALGORITHM_NONE,
                    message_expiry_micros=1,
                    max_size_bytes=1,
                    replication_factor=1,
                )
            ),
        )
        north, south = found = json.loads(replica("nodes", "--json"))
        validate("metadata-nodes", found)
        assert (north["id"], north["name"], north["status"], north["shards"]) == (1, "north", "live", 4)
        assert (north["replicas_count"], north["primaries_count"], north["leaving_count"]) == (3, 3, 0)
        assert (south["binary_address"], south["status"]) == ("south:8100", "live, draining")
        assert south["replicas_count"] == 0
        assert "north:8101" in replica("nodes")
    finally:
        replica.process.kill()
        replica.process.wait()


def test_the_last_commands(replica: Replica) -> None:
    entries = json.loads(replica("log", "--json"))
    validate("metadata-log", entries)
    assert [(entry["number"], entry["operation"]) for entry in entries] == [(1, "create_stream"), (2, "create_topic")]
    assert entries[0]["status"] == 0
    assert entries[1]["status"] != 0
    assert "create_topic" in replica("log", "--count", "1")
    assert "create_stream" not in replica("log", "--count", "1")


def test_the_journal_in_its_directory(replica: Replica) -> None:
    records = json.loads(replica("log", "--directory", str(replica.data), "--json", "--count", "100"))
    validate("metadata-log-directory", records)
    assert sum(record["commands"] for record in records) >= 2
    assert [record["op"] for record in records] == sorted({record["op"] for record in records})
    assert str(records[-1]["op"]) in replica("log", "--directory", str(replica.data))


def test_a_snapshot_for_its_owner_only(replica: Replica, tmp_path: Path) -> None:
    file = tmp_path / "state"
    assert "command 2, version 1" in replica("snapshot", str(file))
    assert file.stat().st_mode & 0o077 == 0
    assert [stream.name for stream in StateSnapshot.FromString(file.read_bytes()).catalog.streams] == ["shop"]
    result = replica.run("snapshot", str(file))
    assert result.returncode != 0
    assert "cannot be written" in result.stderr
    assert file.exists()


def test_a_snapshot_that_fails_leaves_no_file(
    replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    file = tmp_path / "state"
    result = replica.run("snapshot", str(file))
    assert (result.returncode, result.stderr) == (1, f"error: {file} cannot be written: No space left on device\n")
    assert not file.exists()


def test_verify(replica: Replica) -> None:
    assert replica.address in replica("verify")
    twice = replica("verify", "--replica", replica.address, "--replica", replica.address)
    assert len({line.split()[-1] for line in twice.splitlines()[1:]}) == 1
    assert "all files are intact" in replica("verify", "--directory", str(replica.data))


def test_a_damaged_directory_is_reported(replica: Replica, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in replica.data.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    journal = max(damaged.glob("wal-*.log"))
    contents = bytearray(journal.read_bytes())
    # Inside a command: a change of padding between records would not be detected.
    contents[contents.index(b"shop")] ^= 0x40
    journal.write_bytes(contents)
    result = replica.run("verify", "--directory", str(damaged))
    assert result.returncode == 1
    assert journal.name in result.stderr + result.stdout


def test_who_is_not_let_in_is_reported(replica: Replica, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("another secret than that one")
    for environment in ({"HEADRACE_METADATA_SECRET_FILE": str(wrong)}, {"HEADRACE_METADATA_CLUSTER": "other"}):
        result = replica.run("status", **environment)
        assert result.returncode == 1
        assert "unauthenticated" in result.stderr
    result = replica.run("status", HEADRACE_METADATA_SECRET_FILE=str(tmp_path / "missing"))
    assert result.returncode != 0
    assert "missing cannot be read" in " ".join(result.stderr.split())
    wrong.write_bytes(b"\xff\xfe")
    result = replica.run("status", HEADRACE_METADATA_SECRET_FILE=str(wrong))
    assert (result.returncode, result.stderr) == (1, f"error: {wrong} is not text in UTF-8, which the secret is\n")


def test_replicas_that_are_down_are_named(replica: Replica) -> None:
    began = time.monotonic()
    result = replica.run("status", "--replica", "127.0.0.1:1", "--replica", replica.address, "--json")
    assert result.returncode == 1
    assert "127.0.0.1:1: unavailable" in result.stderr
    found = json.loads(result.stdout)
    validate("metadata-status", found)
    assert [(it["address"], it["state"]) for it in found] == [
        ("127.0.0.1:1", "no answer"),
        (replica.address, "primary"),
    ]
    result = replica.run("verify", "--replica", "127.0.0.1:1", "--replica", replica.address)
    assert result.returncode == 1
    assert result.stderr.endswith("error: only 1 of 2 replicas answered: the others were not compared\n")
    result = replica.run("members", "--replica", "127.0.0.1:1")
    assert result.returncode == 1
    assert "no replica answered" in result.stderr
    assert "Traceback" not in result.stderr
    assert time.monotonic() - began < 60


def test_a_directory_without_a_replica(replica: Replica, tmp_path: Path) -> None:
    result = replica.run("verify", "--directory", str(tmp_path))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
