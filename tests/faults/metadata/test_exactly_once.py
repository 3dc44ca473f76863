"""CTL-1: commands of sessions are applied once each, although their primary is killed again and again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc.aio import AioRpcError

from headrace_metadata_client import Session
from headrace_proto.catalog.v1 import COMPRESSION_ALGORITHM_NONE
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, CreateTopic, GetStatusRequest, PurgeTopic
from tests.faults.metadata.clients import Caller
from tests.faults.metadata.cluster import converged, running_cluster
from tests.metadata_replicas import METADATA, ReplicaProcess

CALLERS = 8
KILLS = 4
TIMEOUT_SECONDS = 60.0


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_commands_are_applied_once_each_while_primaries_are_killed(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        caller = Caller(cluster.replicas, timeout_seconds=1.0)
        sessions = [Session(caller.stubs, METADATA, attempt_seconds=0.5) for _ in range(CALLERS)]
        counted = Counter({str(number): 0 for number in range(CALLERS)})
        enough = asyncio.Event()
        work = [
            asyncio.create_task(count(session, name, counted, enough))
            for session, name in zip(sessions, counted, strict=True)
        ]
        try:
            for kill in range(1, KILLS + 1):
                # Wait until all sessions have completed commands.
                await until(lambda goal=kill * 10: min(counted.values()) >= goal, work)
                killed = await kill_primary(caller, cluster.replicas)
                await until(lambda goal=kill * 10 + 5: min(counted.values()) >= goal, work)
                killed.start()
            enough.set()
            await asyncio.gather(*work)
            state = await converged(caller.stubs)
        finally:
            for task in work:
                task.cancel()
            await caller.close()
    epochs = {topic.name: topic.purge_epoch for topic in state.catalog.topics}
    assert epochs == counted, "each command was applied once"
    assert sum(session.repeats for session in sessions) > 0, "no command was in flight when a primary died"


async def count(session: Session, name: str, counted: Counter[str], enough: asyncio.Event) -> None:
    """Purge a topic that only this client uses: the topic counts purges, the client counts acknowledgements."""
    created = await propose(session, Command(create_stream=CreateStream(name=name)))
    topic = CreateTopic(
        stream_id=created,
        name=name,
        partitions_count=1,
        compression=COMPRESSION_ALGORITHM_NONE,
        message_expiry_micros=2**64 - 1,
        max_size_bytes=2**64 - 1,
        replication_factor=1,
    )
    await propose(session, Command(create_topic=topic))
    while not enough.is_set():
        await propose(session, Command(purge_topic=PurgeTopic(stream_id=created, topic_id=0)))
        counted[name] += 1


async def propose(session: Session, command: Command) -> int:
    """Propose a command that has to succeed; a second creation would find its name taken. Return the id of a new
    stream.
    """
    reply = (await session.propose(command, timeout_seconds=TIMEOUT_SECONDS)).reply
    assert Status(reply.status) is Status.OK
    return int(reply.stream.id)


async def until(reached: Callable[[], bool], work: list[asyncio.Task[None]]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not reached():
        for task in work:
            if task.done():
                # A task that has ended early raises its failure here.
                task.result()
        assert time.monotonic() < end, "the replicas that are left do not serve"
        await asyncio.sleep(0.01)


async def kill_primary(caller: Caller, replicas: list[ReplicaProcess]) -> ReplicaProcess:
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        for replica, stub in zip(replicas, caller.stubs, strict=True):
            if not replica.is_running:
                continue
            try:
                status = await stub.GetStatus(GetStatusRequest(), metadata=METADATA, timeout=0.5)
            except AioRpcError:
                continue
            if status.HasField("primary") and status.primary == replica.index:
                replica.kill()
                return replica
        await asyncio.sleep(0.02)
    raise AssertionError("there is no primary")
