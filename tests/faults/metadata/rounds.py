"""Rounds of faults under load, and a check of the history at the end.

python -m tests.faults --only metadata --rounds 100 --seed 7
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from grpc import aio

from headrace_proto.metadata.v1 import REPLICA_STATE_NORMAL, GetStatusRequest, ReplicaStatus
from tests.faults.metadata.clients import Caller, Load, initial
from tests.faults.metadata.cluster import Cluster, NotConverged, converged, running_cluster
from tests.faults.metadata.linearizability import is_linearizable
from tests.lossy_disk import LossyDisk
from tests.metadata_replicas import METADATA

_RECOVERY_SECONDS_MAX: Final = 60.0
_POLL_SECONDS: Final = 0.01


@dataclass(slots=True)
class Verdict:
    """Results of a run."""

    rounds: list[str] = field(default_factory=list)
    failover_seconds: list[float] = field(default_factory=list)
    """Seconds from a fault that isolated the primary from two others to the first acknowledgement of a later write."""
    degraded_seconds: list[float] = field(default_factory=list)
    """Same, with one of the others still recovering from the previous fault."""
    healed_seconds: list[float] = field(default_factory=list)
    """Seconds from the end of a fault that removed the majority to that acknowledgement; includes the start of
    processes.
    """
    problems: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    def report(self) -> str:
        """Return the results in a few lines."""
        lines = [f"{len(self.rounds)} rounds; calls: {self.outcomes}"]
        for name, values in (
            ("fail-over", self.failover_seconds),
            ("fail-over with another replica away", self.degraded_seconds),
            ("after a lost majority", self.healed_seconds),
        ):
            if values:
                lines.append(
                    f"{name}: n={len(values)} p50={_quantile(values, 0.5):.3f} s p99={_quantile(values, 0.99):.3f} s "
                    f"max={max(values):.3f} s"
                )
        return "\n".join([*lines, *self.problems])


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a cluster whose primary is known."""

    name: str
    harm: Callable[[Cluster, int, random.Random], None]
    majority_lost: bool = False


def _kill_primary(cluster: Cluster, primary: int, _: random.Random) -> None:
    cluster.replicas[primary].kill()


def _pause_primary(cluster: Cluster, primary: int, _: random.Random) -> None:
    cluster.replicas[primary].pause()


def _cut_primary(cluster: Cluster, primary: int, _: random.Random) -> None:
    for link in cluster.links_of(primary):
        link.cut()


def _stall_primary(cluster: Cluster, primary: int, _: random.Random) -> None:
    for link in cluster.links_of(primary):
        link.stall()


def _mute_primary(cluster: Cluster, primary: int, _: random.Random) -> None:
    """The primary receives from the others, but they do not receive from it."""
    for link in cluster.links_of(primary, incoming=False):
        link.cut()


def _kill_backup(cluster: Cluster, primary: int, numbers: random.Random) -> None:
    cluster.replicas[_backup(cluster, primary, numbers)].kill()


def _cut_backup(cluster: Cluster, primary: int, numbers: random.Random) -> None:
    for link in cluster.links_of(_backup(cluster, primary, numbers)):
        link.cut()


def _pause_backup(cluster: Cluster, primary: int, numbers: random.Random) -> None:
    cluster.replicas[_backup(cluster, primary, numbers)].pause()


def _kill_two(cluster: Cluster, primary: int, numbers: random.Random) -> None:
    cluster.replicas[primary].kill()
    cluster.replicas[_backup(cluster, primary, numbers)].kill()


def _kill_all(cluster: Cluster, _: int, __: random.Random) -> None:
    for replica in cluster.replicas:
        replica.kill()


def _cut_power(cluster: Cluster, _: int, numbers: random.Random) -> None:
    cluster.cut_power(numbers.getrandbits(60))


def _backup(cluster: Cluster, primary: int, numbers: random.Random) -> int:
    return numbers.choice([index for index in range(len(cluster.replicas)) if index != primary])


PRIMARY_FAULTS: Final = (
    Fault("kill the primary", _kill_primary),
    Fault("pause the primary", _pause_primary),
    Fault("cut the primary off", _cut_primary),
    Fault("stall the primary's network", _stall_primary),
    Fault("no replica hears the primary", _mute_primary),
)
OTHER_FAULTS: Final = (
    Fault("kill a backup", _kill_backup),
    Fault("cut a backup off", _cut_backup),
    Fault("pause a backup", _pause_backup),
    Fault("kill the primary and a backup", _kill_two, majority_lost=True),
    Fault("kill all", _kill_all, majority_lost=True),
)
POWER_CUT: Final = Fault("cut the power of all", _cut_power, majority_lost=True)


async def run_rounds(
    directory: Path,
    *,
    rounds: int,
    seed: int,
    clients: int = 12,
    keys: int = 4,
    disk: LossyDisk | None = None,
    only: Fault | None = None,
) -> Verdict:
    """Inject faults into a cluster of three under load, heal it after each, and check the clients' history.

    Args:
        directory: Parent directory of the replicas' directories and logs.
        rounds: Number of faults, one after the other.
        seed: Seed of the faults and of the clients' operations; timing still differs from run to run.
        clients: Number of concurrent clients.
        keys: Number of streams used as keys.
        disk: Disk for the replicas' directories, instead; its power is cut, too.
        only: The only fault; by default faults that isolate the primary alternate with others.
    """
    numbers = random.Random(seed)
    verdict = Verdict()
    other_faults = OTHER_FAULTS if disk is None else (*OTHER_FAULTS, POWER_CUT, POWER_CUT)
    async with running_cluster(directory, disk=disk) as cluster:
        load = Load(cluster.replicas, clients=clients, keys=keys, seed=seed)
        caller = Caller(cluster.replicas, timeout_seconds=1.0)
        await load.prepare()
        load.start()
        try:
            for number in range(rounds):
                fault = only or numbers.choice(PRIMARY_FAULTS if number % 3 else other_faults)
                verdict.rounds.append(fault.name)
                await _round(cluster, caller, load, fault, numbers, verdict)
            await load.stop()
            cluster.heal()
            try:
                await converged(caller.stubs)
            except NotConverged as error:
                verdict.problems.append(str(error))
        finally:
            await caller.close()
        verdict.outcomes = dict(load.outcomes)
        for key, operations in enumerate(load.history):
            if not is_linearizable(operations, initial(key)):
                verdict.problems.append(f"the history of key {key} ({len(operations)} calls) is not linearizable")
        for replica in cluster.replicas:
            if replica.stop() != 0:
                verdict.problems.append(f"replica {replica.index} ended with a failure: {replica.log}")
            if "Traceback" in replica.log_text() or "panicked" in replica.log_text():
                verdict.problems.append(f"replica {replica.index} wrote a traceback: {replica.log}")
    return verdict


async def _round(
    cluster: Cluster, caller: Caller, load: Load, fault: Fault, numbers: random.Random, verdict: Verdict
) -> None:
    primary, all_of_them = await _primary(caller)
    harmed = time.monotonic()
    fault.harm(cluster, primary, numbers)
    if fault.majority_lost:
        await asyncio.sleep(numbers.uniform(0.2, 1.5))
        harmed = time.monotonic()
        cluster.heal()
    written = await _written(caller, load, harmed, verdict, fault)
    if written is not None:
        if fault.majority_lost:
            verdict.healed_seconds.append(written - harmed)
        elif fault in PRIMARY_FAULTS:
            (verdict.failover_seconds if all_of_them else verdict.degraded_seconds).append(written - harmed)
    await asyncio.sleep(numbers.uniform(0.0, 1.0))
    cluster.heal()
    await _written(caller, load, time.monotonic(), verdict, fault)
    # Sometimes let the next fault hit a cluster whose replicas are still catching up.
    await asyncio.sleep(numbers.choice([0.0, 0.5, 2.0]))


async def _written(caller: Caller, load: Load, since: float, verdict: Verdict, fault: Fault) -> float | None:
    while time.monotonic() < since + _RECOVERY_SECONDS_MAX:
        written = load.first_write_after(since)
        if written is not None:
            return written
        await asyncio.sleep(_POLL_SECONDS)
    statuses = "\n".join(str(status).replace("\n", " ") for status in await _statuses(caller))
    verdict.problems.append(f"no write for {_RECOVERY_SECONDS_MAX:.0f} s ({fault.name}); the replicas say\n{statuses}")
    return None


async def _primary(caller: Caller) -> tuple[int, bool]:
    """Return the primary according to the replicas, and whether all of them take part in its view."""
    while True:
        statuses = await _statuses(caller)
        known = [status for status in statuses if status.HasField("primary")]
        if known:
            latest = max(known, key=lambda status: status.view)
            if any(status.replica == latest.primary for status in statuses):
                follows = [s.view == latest.view and s.state == REPLICA_STATE_NORMAL for s in statuses]
                return latest.primary, len(follows) == len(caller.stubs) and all(follows)
        await asyncio.sleep(_POLL_SECONDS)


async def _statuses(caller: Caller) -> list[ReplicaStatus]:
    """Return the statuses of the replicas that answer."""
    found = []
    for stub in caller.stubs:
        with suppress(aio.AioRpcError):
            found.append(await stub.GetStatus(GetStatusRequest(), metadata=METADATA, timeout=0.5))
    return found


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
