"""Directory entries that a killed process has changed and not synced: the next process syncs them before it relies on
them.

A write acknowledged at `fsync` survives a power cut, even if the server found the file's name unsynced (LOG-4, LOG-11).
A power cut loses the last of the unsynced changes; the seeds are chosen so that it loses the relevant ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.protocol.codes import Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.lossy_disk import LossyDisk, lossy_disk, needs_lossy_disk
from tests.server_process import ServerProcess

pytestmark = needs_lossy_disk

_STREAM = "work"
_PARTITIONS_COUNT = 4
_LEVELS = ("partition", "partitions", "topic", "topics", "stream", "streams")


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[LossyDisk]:
    with lossy_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture(name="server")
def _server(disk: LossyDisk, tmp_path: Path) -> Iterator[ServerProcess]:
    """Return a server that was killed and has a topic."""
    server = ServerProcess(disk.path / "data", {"DURABILITY": "fsync"}, log=tmp_path / "server.log").start()
    try:
        with RawConnection.as_root(server.address) as connection:
            connection.create_topic(_STREAM, partitions=_PARTITIONS_COUNT)
            _send(connection, b"before")
        server.kill()
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize(("name", "seed"), [("log", 0), ("partition", 6), ("streams", 2)])
def test_names_that_were_changed_and_not_synced(disk: LossyDisk, server: ServerProcess, name: str, seed: int) -> None:
    """Files and directories that contain messages are renamed there and back."""
    for directory in _directories(server):
        named = directory.glob("*.log") if name == "log" else [_level(directory, name)]
        for path in named:
            _rename_there_and_back(path)
    assert _found_after_power_cut(disk, server, seed) == [[b"before", b"after"]] * _PARTITIONS_COUNT


@pytest.mark.parametrize(
    ("name", "seed"), [("partition", 2), ("partitions", 2), ("topic", 2), ("topics", 2), ("stream", 7), ("streams", 7)]
)
def test_directories_that_were_made_and_not_synced(
    disk: LossyDisk, server: ServerProcess, name: str, seed: int
) -> None:
    """The process was killed while it created the directories down to the first file of a partition."""
    levels = [_level(_directories(server)[0], level) for level in _LEVELS]
    deepest = _LEVELS.index(name)
    shutil.rmtree(levels[deepest])
    _sync(levels[deepest].parent)
    levels[deepest].mkdir()
    found = _found_after_power_cut(disk, server, seed)
    assert found[0] == [b"after"]


def _found_after_power_cut(disk: LossyDisk, server: ServerProcess, seed: int) -> list[list[bytes]]:
    """Send a message to each partition of the topic, cut the power, and return the stored messages."""
    server.start()
    with RawConnection.as_root(server.address) as connection:
        _send(connection, b"after")
    server.kill()
    disk.cut(seed)
    server.start()
    with RawConnection.as_root(server.address) as connection:
        return [
            connection.poll(_STREAM, "t", partition, Strategy.FIRST).payloads for partition in range(_PARTITIONS_COUNT)
        ]


def _send(connection: RawConnection, payload: bytes) -> None:
    for partition in range(_PARTITIONS_COUNT):
        connection.send(_STREAM, "t", partition, payload)


def _directories(server: ServerProcess) -> list[Path]:
    return [server.partition_directory(partition=partition) for partition in range(_PARTITIONS_COUNT)]


def _level(directory: Path, name: str) -> Path:
    """Return the directory of a partition, or one above it."""
    return (directory, *directory.parents)[_LEVELS.index(name)]


def _rename_there_and_back(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    for _ in range(4):
        path.rename(elsewhere)
        elsewhere.rename(path)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
