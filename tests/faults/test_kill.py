"""SIGKILL at random moments under concurrent clients: acknowledged operations are kept (LOG-10, LOG-11, LOG-15)."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.faults.audit import Audit
from tests.faults.workload import Gate, Workload, join_all
from tests.property_runs import FACTOR
from tests.server_process import ServerProcess

SETTINGS = TWO_SHARDS | {
    # Small segments roll and sync all the time, so that kills hit those operations, too.
    "SYSTEM_SEGMENT_SIZE": "256 KiB",
    "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "64 KiB",
    "MESSAGE_SAVER_SYNC_INTERVAL": "20 ms",
    "MESSAGE_SAVER_SYNC_SIZE": "128 KiB",
}


@pytest.mark.long(but=1)
@pytest.mark.parametrize(("durability", "kills"), [("os", 8 * FACTOR), ("fsync", 2 * FACTOR)])
@pytest.mark.timeout(600 * FACTOR)
def test_kills(tmp_path: Path, show: list[str], durability: str, kills: int) -> None:
    """No acknowledged message lost, none duplicated, offsets dense, stored offsets and the catalog intact.

    TEST_SEED repeats a run as far as the machine's timing allows; PROPERTY_FACTOR=3 kills three times as often.
    """
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
    show.append(f"{kills} kills, seed {seed}")
    random_source = random.Random(seed)
    server = ServerProcess(tmp_path / "data", SETTINGS | {"DURABILITY": durability}).start()
    gate = Gate(server.address)
    workload = Workload(gate, seed)
    workload.start()
    audit = Audit(workload)
    for _ in range(kills):
        gate.open()
        time.sleep(random_source.uniform(0.02, 0.5))
        gate.shut()
        server.kill()
        gate.wait_all_left()
        if random_source.random() < 0.2:
            # Kill again before the recovery from the first kill is complete.
            server.spawn()
            time.sleep(random_source.uniform(0.05, 0.5))
            server.kill()
        server.start()
        workload.check_alive()
        with RawConnection.as_root(server.address) as connection:
            audit.check(connection)
    gate.finish()
    join_all(workload.workers)
    for restart in (False, True):
        if restart:
            server.restart()
        with RawConnection.as_root(server.address) as connection:
            audit.check(connection)
            audit.check_everything(connection)
    assert server.stop() == 0
    in_flight = sum(len(producer.unanswered) for producer in workload.producers)
    show.append(f"{audit.messages_count} messages, {in_flight} batches were in flight")
