"""A damaged catalog: a torn end is cut, other damage stops the startup and names the file (LOG-14, CTL-5)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.faults.segment_files import cut, flip
from tests.server_process import ServerDidNotStart, ServerProcess

STREAMS = [f"stream {number}" for number in range(20)]


@pytest.fixture(params=["stopped", "killed"])
def catalogued(request: pytest.FixtureRequest, server: ServerProcess) -> ServerProcess:
    """Return a stopped server that has created some streams."""
    with RawConnection.as_root(server.address) as connection:
        for name in STREAMS:
            connection.create_topic(name)
            connection.send(name, "t", 0, name.encode())
    if request.param == "stopped":
        server.stop()
    else:
        server.kill()
    return server


def journal(server: ServerProcess) -> Path:
    """Return the journal file written last."""
    return max((server.data / "metadata").glob("wal-*.log"), key=lambda path: path.stat().st_mtime_ns)


def written_bytes(file: Path) -> int:
    """Return the end of the written part: the rest of the file is zeros."""
    return len(file.read_bytes().rstrip(b"\0"))


def found_streams(server: ServerProcess) -> list[str]:
    """Return the streams that exist with their messages."""
    with RawConnection.as_root(server.address) as connection:
        found = [name for name in STREAMS if connection.ok(Code.GET_STREAM, frames.ident(name))]
        for name in found:
            assert connection.poll(name, "t", 0, Strategy.FIRST).payloads == [name.encode()]
        connection.create_topic("new")
        connection.send("new", "t", 0, b"m")
    return found


@pytest.mark.parametrize("torn", [b"\1", random.Random(1).randbytes(300)], ids=["byte", "noise"])
def test_a_torn_end_is_cut(catalogued: ServerProcess, torn: bytes) -> None:
    """Bytes that a crash leaves after the last entry belong to no acknowledged change."""
    file = journal(catalogued)
    # Entries begin at multiples of the device's block size.
    position = (written_bytes(file) + 4095) // 4096 * 4096
    with file.open("r+b") as raw:
        raw.seek(position)
        raw.write(torn)
    catalogued.start()
    assert found_streams(catalogued) == STREAMS
    catalogued.restart(kill=True)


@pytest.mark.parametrize("damage", ["flipped", "empty"])
def test_damage_stops_the_start_or_costs_nothing(catalogued: ServerProcess, damage: str) -> None:
    """A server never starts without acknowledged streams, and deletes nothing of theirs."""
    file = journal(catalogued)
    if damage == "flipped":
        flip(file, written_bytes(file) // 2)
    else:
        cut(file, 0)
    logs_before = sorted((catalogued.data / "streams").rglob("*.log"))
    refusal = None
    try:
        catalogued.start()
    except ServerDidNotStart as failure:
        refusal = str(failure)
    if refusal is None:
        assert found_streams(catalogued) == STREAMS
    else:
        assert str(catalogued.data / "metadata") in refusal
        assert "Traceback" not in refusal
        assert sorted((catalogued.data / "streams").rglob("*.log")) == logs_before
