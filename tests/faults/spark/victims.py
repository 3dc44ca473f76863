"""Choice, kill and restart of victims of five kinds, each in its share."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import grpc

from headrace_proto.cluster_token import HEADER, authorization
from headrace_proto.metadata.v1 import GetStatusRequest
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.cluster import NAME, Cluster
from tests.faults.spark import processes
from tests.faults.spark.driver import Driver
from tests.metadata_replicas import CHANNEL_OPTIONS
from tests.service_process import ServiceProcess

SHARES: Final = {"driver": 4, "executor": 12, "gateway": 8, "node": 8, "metadata primary": 8}
"""Number of kills per kind, of 40 in all. Drivers get few: they take by far the longest to recover."""
_DOWN_SECONDS_MAX: Final = 1.2
_THERE_SECONDS: Final = 240.0
"""Timeout for a victim to exist: a driver starts within seconds, or minutes on an overloaded machine."""
_POLL_SECONDS: Final = 0.05
_ASK_SECONDS: Final = 0.5
_T = TypeVar("_T")
_INNER_SHARE: Final = 0.25
"""Share of driver and executor kills in which only one of its Python processes dies."""


class NoVictim(Exception):
    """No process of the chosen kind existed before the timeout."""


def deck(kills: int, numbers: random.Random) -> list[str]:
    """Return a random sequence of victim kinds, each in its share and at least once."""
    whole = sum(SHARES.values())
    counts = {kind: max(kills * share // whole, 1) for kind, share in SHARES.items()}
    rest = sorted(SHARES, key=lambda kind: SHARES[kind] * kills / whole - counts[kind], reverse=True)
    for kind in rest[: max(kills - sum(counts.values()), 0)]:
        counts[kind] += 1
    cards = [kind for kind, count in counts.items() for _ in range(count)]
    numbers.shuffle(cards)
    return cards[:kills]


class Victims:
    """Kill and restart of processes."""

    def __init__(self, cluster: Cluster, driver: Driver, numbers: random.Random) -> None:
        self._cluster = cluster
        self._driver = driver
        self._numbers = numbers

    def kill(self, kind: str) -> str:
        """Kill a process of this kind and have it restarted; return its name.

        Raises:
            NoVictim: No process of this kind existed.
        """
        match kind:
            case "driver":
                return self._kill_driver()
            case "executor":
                return self._kill_executor()
            case "gateway":
                return self._restart(self._numbers.choice(self._cluster.gateways))
            case "node":
                return self._restart(self._numbers.choice(self._cluster.nodes))
            case _:
                primary = _eventually(self._primary, kind)
                return self._restart(self._cluster.replicas[primary])

    def ended_by_themselves(self) -> list[str]:
        """Return the processes that ended without being killed by the test."""
        return [
            f"{service.name} has ended with {service.process.returncode}\n{service.log_tail()}"
            for service in self._cluster.services
            if not service.is_running
        ]

    def _restart(self, service: ServiceProcess) -> str:
        service.kill()
        time.sleep(self._numbers.uniform(0, _DOWN_SECONDS_MAX))
        service.start()
        return service.name

    def _kill_driver(self) -> str:
        if self._numbers.random() < _INNER_SHARE:
            planners = _eventually(lambda: self._driver.processes().planners, "planner")
            processes.kill([self._numbers.choice(planners)])
            return "a planner of the driver"
        _eventually(lambda: self._driver.processes().driver, "driver")
        if not self._driver.kill():
            raise NoVictim("driver")
        return "the driver"

    def _kill_executor(self) -> str:
        if self._numbers.random() < _INNER_SHARE:
            workers = _eventually(lambda: self._driver.processes().workers, "worker")
            processes.kill([self._numbers.choice(workers)])
            return "a worker of an executor"
        executors = _eventually(lambda: self._driver.processes().executors, "executor")
        processes.kill([self._numbers.choice(executors)])
        return "an executor"

    def _primary(self) -> int | None:
        """Return the primary according to the replicas once that replica agrees."""
        shown = ((HEADER, authorization(self._cluster.secret, NAME)),)
        found = []
        for replica in self._cluster.replicas:
            with suppress(grpc.RpcError), grpc.insecure_channel(replica.address, CHANNEL_OPTIONS) as channel:
                found.append(MetadataStub(channel).GetStatus(GetStatusRequest(), metadata=shown, timeout=_ASK_SECONDS))
        known = [status for status in found if status.HasField("primary")]
        latest = max(known, key=lambda status: status.view, default=None)
        if latest is None or all(status.replica != latest.primary for status in found):
            return None
        return int(latest.primary)


def _eventually(look: Callable[[], _T | None], kind: str) -> _T:
    deadline = time.monotonic() + _THERE_SECONDS
    while (found := look()) is None or found == ():
        if time.monotonic() > deadline:
            raise NoVictim(kind)
        time.sleep(_POLL_SECONDS)
    return found
