"""Memory pressure delays requests and fails none of them (SHARD-12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.server_process import ServerProcess
from tests.soak.memory import Load, growth


def _server(directory: Path, pool: str) -> ServerProcess:
    small = {"SYSTEM_MEMORY_POOL_SIZE": pool, "SYSTEM_MEMORY_POOL_SMALL": "true"}
    return ServerProcess(directory / "data", TWO_SHARDS | small)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Server with the memory of the embedded server."""
    with _server(tmp_path, "128 MiB") as server:
        yield server


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[ServerProcess]:
    """Server with the minimum configurable memory."""
    with _server(tmp_path, "16 MiB") as server:
        yield server


def test_every_batch_is_answered_when_the_ends_of_logs_fill_the_pool(server: ServerProcess) -> None:
    """Tail caches of ten partitions may hold 160 MiB of 128: rarely read ones release memory for receives."""
    payload = bytes(1_000_000)
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=10)
        for _ in range(18):
            for partition in range(10):
                connection.send("s", "t", partition, payload)
        for partition in range(10):
            found = connection.poll("s", "t", partition, Strategy.OFFSET, 0, 1)
            assert (found.offsets, found.payloads) == ([0], [payload])
            assert connection.poll("s", "t", partition, Strategy.LAST, count=1).offsets == [17]


@pytest.mark.long
def test_a_thousand_partitions_share_little_memory(tiny: ServerProcess) -> None:
    """Each partition has a block for small batches, and some have large batches."""
    with RawConnection.as_root(tiny.address) as connection:
        connection.create_topic("s", partitions=1000)
        for partition in range(1000):
            connection.send("s", "t", partition, bytes(3000))
            if partition % 10 == 0:
                connection.send("s", "t", partition, bytes(1_000_000))
        for partition in range(0, 1000, 10):
            # A poll may return less than there is while memory is scarce; the next one goes on from there.
            sizes: list[int] = []
            while len(sizes) < 2:
                found = connection.poll("s", "t", partition, Strategy.OFFSET, len(sizes))
                assert found.payloads
                sizes += map(len, found.payloads)
            assert sizes == [3000, 1_000_000]


def test_a_batch_that_can_never_be_received_is_refused(tiny: ServerProcess) -> None:
    """A batch that never fits would wait for ever; it is refused, and the connection stays open."""
    with RawConnection.as_root(tiny.address) as connection:
        connection.create_topic("s")
        payload = frames.send("s", "t", frames.to_partition(0), [frames.message(bytes(9_000_000))])
        assert connection.status(Code.SEND_MESSAGES, payload) == Status.INVALID_COMMAND
        connection.send("s", "t", 0, bytes(7_000_000))


@pytest.mark.long
def test_mixed_load_with_slow_consumers(server: ServerProcess) -> None:
    """Batches of 100 B to 8 MB and consumers that receive slowly: every request is answered."""
    load = Load(server.address, partitions=100, seed=5, bytes_per_second=100e6)
    load.run(5.0)
    assert load.problems == []
    assert load.sent > 50
    assert load.polled > 5


@pytest.mark.parametrize(("last", "grows"), [(300, False), (310, False), (500, True)])
def test_growth_is_seen(last: int, grows: bool) -> None:
    """Test of the growth criterion of the soak run."""
    samples = [megabytes << 20 for megabytes in (10, 200, 300, 300, last, last)]
    assert bool(growth(samples)) == grows
