"""A cluster with a TCP proxy between each two replicas."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from grpc import aio

from headrace_proto.metadata.v1 import (
    CONSISTENCY_LINEARIZABLE,
    CONSISTENCY_STALE,
    Consistency,
    GetSnapshotRequest,
    StateSnapshot,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.faults.metadata.proxy import Link
from tests.lossy_disk import LossyDisk
from tests.metadata_replicas import METADATA, ReplicaProcess
from tests.ports import free_port

_CONVERGE_SECONDS_MAX = 60.0


class Cluster:
    """Replicas and the links between them."""

    def __init__(
        self, replicas: list[ReplicaProcess], links: dict[tuple[int, int], Link], disk: LossyDisk | None
    ) -> None:
        self.replicas = replicas
        self.links = links
        self._disk = disk

    def links_of(self, index: int, *, incoming: bool = True, outgoing: bool = True) -> list[Link]:
        """Return the links by which a replica connects to others, and those by which others connect to it."""
        return [
            link
            for (source, target), link in self.links.items()
            if (outgoing and source == index) or (incoming and target == index)
        ]

    def cut_power(self, seed: int) -> None:
        """Cut the power of all replicas: each loses a different part of its unsynced writes."""
        assert self._disk is not None, "the replicas' disk does not lose power"
        for replica in self.replicas:
            replica.kill()
        self._disk.cut(seed)

    def heal(self) -> None:
        """Open every link, resume paused replicas, start stopped ones."""
        for link in self.links.values():
            link.heal()
        for replica in self.replicas:
            if replica.is_running and replica.is_paused:
                replica.resume()
            elif not replica.is_running:
                replica.start()


@asynccontextmanager
async def running_cluster(
    directory: Path, *, count: int = 3, settings: Mapping[str, str] | None = None, disk: LossyDisk | None = None
) -> AsyncIterator[Cluster]:
    """Run replicas for the duration of an ``async with`` block.

    Args:
        directory: Parent directory of the replicas' directories and logs.
        count: One, three or five.
        settings: Additional settings of all replicas, by variable without the prefix.
        disk: Disk for the replicas' directories, instead.
    """
    ports = [(free_port(), free_port()) for _ in range(count)]
    links: dict[tuple[int, int], Link] = {}
    async with AsyncExitStack() as stack:
        for source, target in itertools.permutations(range(count), 2):
            link = links[source, target] = Link(ports[target][0])
            await link.start()
            stack.push_async_callback(link.close)
        replicas = []
        for index in range(count):
            members = [
                f"127.0.0.1:{links[index, other].port if other != index else ports[other][0]}" for other in range(count)
            ]
            place = disk.path if disk else directory
            replica = ReplicaProcess(place, index, members, ports[index], settings or {}, log=directory)
            stack.callback(replica.kill)
            replica.start()
            replicas.append(replica)
        yield Cluster(replicas, links, disk)


class NotConverged(Exception):
    """The replicas did not converge to one state."""


async def converged(stubs: Sequence[MetadataStub]) -> StateSnapshot:
    """Wait until all replicas hold the same state, byte for byte, and return it.

    Raises:
        NotConverged: The states differed for a minute.
    """
    deadline = time.monotonic() + _CONVERGE_SECONDS_MAX
    seen = ""
    while time.monotonic() < deadline:
        states = [await _state(stub, CONSISTENCY_STALE) for stub in stubs]
        known = [state for state in states if state is not None]
        if len(known) == len(states) and len(set(known)) == 1:
            return StateSnapshot.FromString(known[0])
        seen = ", ".join("no answer" if state is None else str(StateSnapshot.FromString(state).op) for state in states)
        await asyncio.sleep(0.1)
    raise NotConverged(f"the replicas did not end in one state; they stand at commands {seen}")


async def current(stub: MetadataStub) -> StateSnapshot:
    """Wait until a single replica answers, and return its state including all acknowledged commands.

    Raises:
        NotConverged: The replica did not answer within a minute.
    """
    deadline = time.monotonic() + _CONVERGE_SECONDS_MAX
    while time.monotonic() < deadline:
        state = await _state(stub, CONSISTENCY_LINEARIZABLE)
        if state is not None:
            return StateSnapshot.FromString(state)
        await asyncio.sleep(0.1)
    raise NotConverged("the replica does not answer")


async def _state(stub: MetadataStub, consistency: Consistency.ValueType) -> bytes | None:
    request = GetSnapshotRequest(consistency=consistency)
    try:
        chunks = [chunk.contents async for chunk in stub.GetSnapshot(request, metadata=METADATA, timeout=5.0)]
    except aio.AioRpcError:
        return None
    return b"".join(chunks)
