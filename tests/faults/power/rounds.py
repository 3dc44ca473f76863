"""Rounds of power cuts and kills under load, each followed by an audit.

python -m tests.faults --only data --rounds 100 --seed 7
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.faults.audit import Audit
from tests.faults.workload import Gate, Workload, join_all
from tests.lossy_disk import LossyDisk, lossy_disk
from tests.server_process import ServerProcess

SETTINGS: Final = TWO_SHARDS | {
    # Small segments roll and sync all the time, so that power cuts hit those operations, too.
    "SYSTEM_SEGMENT_SIZE": "256 KiB",
    "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "64 KiB",
    "MESSAGE_SAVER_SYNC_INTERVAL": "20 ms",
    "MESSAGE_SAVER_SYNC_SIZE": "128 KiB",
    "DURABILITY": "fsync",
}
_WORK_SECONDS: Final = (0.02, 0.5)
_RECOVERY_SECONDS: Final = (0.02, 0.3)


@dataclass(slots=True)
class Seen:
    """Results of a run."""

    faults: Counter[str] = field(default_factory=Counter)
    names_lost: int = 0
    """Number of creations and removals of files and directories that were lost."""
    recovery_seconds: list[float] = field(default_factory=list)
    """Seconds from the start of a process until clients can work."""
    messages: int = 0
    """Number of messages found at the end, including all acknowledged ones."""
    in_flight: int = 0
    """Number of batches whose response was lost by a fault."""

    def report(self) -> str:
        """Return the results in a few lines."""
        faults = ", ".join(f"{count} times {name}" for name, count in sorted(self.faults.items()))
        recovery = sorted(self.recovery_seconds)
        return (
            f"data plane: {sum(self.faults.values())} rounds: {faults}\n"
            f"{self.names_lost} names of files and directories were lost or came back\n"
            f"recovery: p50={recovery[len(recovery) // 2]:.3f} s max={recovery[-1]:.3f} s\n"
            f"{self.messages} messages, none of those acknowledged lost; {self.in_flight} batches were in flight"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    server: ServerProcess
    disk: LossyDisk
    numbers: random.Random
    seen: Seen

    def cut(self) -> None:
        self.server.kill()
        self.seen.names_lost += len(self.disk.cut(self.numbers.getrandbits(60)))

    def recover_in_part(self) -> None:
        """Start the server so that the next fault interrupts its recovery, or hits soon after."""
        self.server.spawn()
        time.sleep(self.numbers.uniform(*_RECOVERY_SECONDS))


def _kill(run: _Run) -> None:
    run.server.kill()


def _cut(run: _Run) -> None:
    run.cut()


def _cut_in_recovery(run: _Run) -> None:
    run.cut()
    run.recover_in_part()
    run.cut()


def _cut_after_kill(run: _Run) -> None:
    run.server.kill()
    run.recover_in_part()
    run.cut()


_FAULTS: Final[dict[str, Callable[[_Run], None]]] = {
    "kill": _kill,
    "power cut": _cut,
    "power cut in the recovery from one": _cut_in_recovery,
    "power cut in the recovery from a kill": _cut_after_kill,
}


def run_rounds(directory: Path, *, rounds: int, seed: int) -> Seen:
    """Cut the power of a server under load, or kill it, `rounds` times, and audit its data after each.

    No acknowledged message is lost or duplicated, offsets are dense, a message once read never changes, stored offsets
    and the catalog are as acknowledged (LOG-10, LOG-11, LOG-15).

    Args:
        directory: Parent directory of the log and of the disk's mount point.
        rounds: Number of faults, one after the other.
        seed: Seed of the faults, of the lost writes and of the clients; timing still differs from run to run.

    Raises:
        AssertionError: An acknowledged operation is missing or wrong; the message names it.
    """
    with lossy_disk(directory / "disk") as disk:
        server = ServerProcess(disk.path / "data", SETTINGS, log=directory / "server.log")
        try:
            return _rounds(_Run(server, disk, random.Random(seed), Seen()), rounds, seed)
        finally:
            server.kill()


def _rounds(run: _Run, rounds: int, seed: int) -> Seen:
    server, seen = run.server.start(), run.seen
    gate = Gate(server.address)
    workload = Workload(gate, seed)
    workload.start()
    audit = Audit(workload, loses_power=True)
    for _ in range(rounds):
        gate.open()
        time.sleep(run.numbers.uniform(*_WORK_SECONDS))
        gate.shut()
        name = run.numbers.choice(list(_FAULTS))
        seen.faults[name] += 1
        _FAULTS[name](run)
        gate.wait_all_left()
        began = time.monotonic()
        server.start()
        seen.recovery_seconds.append(time.monotonic() - began)
        workload.check_alive()
        with RawConnection.as_root(server.address) as connection:
            audit.check(connection)
    gate.finish()
    join_all(workload.workers)
    for finish in (lambda: None, server.restart, run.cut):
        finish()
        if not server.is_running:
            server.start()
        with RawConnection.as_root(server.address) as connection:
            audit.check(connection)
            audit.check_everything(connection)
    assert server.stop() == 0
    seen.messages = audit.messages_count
    seen.in_flight = sum(len(producer.unanswered) for producer in workload.producers)
    return seen
