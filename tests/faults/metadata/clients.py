"""Clients that continuously operate on a few keys and record the history.

Their commands belong to sessions, which repeat a command after a fail-over until a replica returns its outcome. Probes
have no session and try each command once.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import grpc
from grpc import aio

from headrace_metadata_client import CommandNotTakenError, OutcomeUnknownError, Session
from headrace_proto.catalog.v1 import COMPRESSION_ALGORITHM_NONE
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CreateStream,
    CreateTopic,
    DeleteTopic,
    ProposeRequest,
    ReadRequest,
    StreamQuery,
    StreamRecord,
    UpdateStream,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.faults.metadata.history import Kind, Operation, State
from tests.metadata_replicas import CHANNEL_OPTIONS, METADATA, ReplicaProcess

PRIMARY: Final = "headrace-primary"

# Statuses after which a call had no effect; the outcome of any other failure is unknown.
_NOT_TAKEN: Final = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED)
_PAUSE_SECONDS: Final = 0.01
_SESSION_SECONDS: Final = 10.0
"""Retry time of a session, longer than a fail-over, so that an unknown outcome implies a lost majority."""


class NotTaken(Exception):
    """A call had no effect."""

    def __init__(self, primary: int | None) -> None:
        super().__init__(primary)
        self.primary = primary


class Caller:
    """Calls of one client to all replicas."""

    def __init__(self, replicas: Sequence[ReplicaProcess], timeout_seconds: float) -> None:
        self._channels = [aio.insecure_channel(replica.address, options=CHANNEL_OPTIONS) for replica in replicas]
        self.stubs = [MetadataStub(channel) for channel in self._channels]
        self._timeout_seconds = timeout_seconds

    async def propose(self, replica: int, command: Command) -> Status | None:
        """Propose to one replica; return the status, or `None` if the outcome is unknown.

        Raises:
            NotTaken: The call had no effect.
        """
        try:
            response = await self.stubs[replica].Propose(
                ProposeRequest(command=command), metadata=METADATA, timeout=self._timeout_seconds
            )
        except aio.AioRpcError as error:
            _raise_if_not_taken(error)
            return None
        return Status(response.reply.status)

    async def read(self, replica: int, stream_id: int) -> StreamRecord:
        """Read a stream from one replica, linearizable.

        Raises:
            NotTaken: The replica did not answer.
        """
        request = ReadRequest(stream=StreamQuery(id=stream_id))
        try:
            response = await self.stubs[replica].Read(request, metadata=METADATA, timeout=self._timeout_seconds)
        except aio.AioRpcError as error:
            _raise_if_not_taken(error)
            raise NotTaken(None) from error
        return response.stream

    async def close(self) -> None:
        """Close the connections."""
        for channel in self._channels:
            await channel.close()


class Load:
    """Clients that operate on a few keys until they are stopped."""

    def __init__(self, replicas: Sequence[ReplicaProcess], *, clients: int, keys: int, seed: int) -> None:
        self.history: list[list[Operation]] = [[] for _ in range(keys)]
        self.outcomes: Counter[str] = Counter()
        self._writes: list[Operation] = []
        self._replicas = replicas
        self._clients = clients
        self._keys = keys
        self._seed = seed
        self._values = itertools.count()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        """Create the keys; wait until the replicas accept commands."""
        caller = Caller(self._replicas, timeout_seconds=5.0)
        for key in range(self._keys):
            command = Command(create_stream=CreateStream(name=initial(key).value))
            for replica in itertools.cycle(range(len(self._replicas))):
                try:
                    status = await caller.propose(replica, command)
                except NotTaken:
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                if status in {Status.OK, Status.STREAM_NAME_ALREADY_EXISTS}:
                    break
                await asyncio.sleep(_PAUSE_SECONDS)
        await caller.close()

    def start(self) -> None:
        """Start the clients."""
        self._tasks = [asyncio.create_task(self._work(number)) for number in range(self._clients)]
        self._tasks += [asyncio.create_task(self._probe(replica)) for replica in range(len(self._replicas))]

    async def stop(self) -> None:
        """Stop after every client has finished its operation."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    def first_write_after(self, moment: float) -> float | None:
        """Return the time of the first acknowledgement of a write begun after this moment, if there is one."""
        later = itertools.takewhile(lambda write: write.returned > moment, reversed(self._writes))
        return min((write.returned for write in later if write.invoked > moment), default=None)

    def _note(self, key: int, operation: Operation) -> None:
        self.history[key].append(operation)
        if operation.kind == "write" and not operation.is_open:
            self._writes.append(operation)

    async def _work(self, number: int) -> None:
        numbers = random.Random(f"{self._seed} {number}")
        caller = Caller(self._replicas, timeout_seconds=1.0)
        session = Session(caller.stubs, METADATA)
        replica = numbers.randrange(len(self._replicas))
        while not self._stopping:
            key = numbers.randrange(self._keys)
            kind: Kind = numbers.choices(["write", "read", "lock", "unlock"], [4, 4, 1, 1])[0]
            try:
                if kind == "read":
                    operation = await _read(caller, replica, key)
                else:
                    operation = await self._write(session, key, kind)
            except NotTaken as refusal:
                self.outcomes["not taken"] += 1
                replica = refusal.primary if refusal.primary is not None else numbers.randrange(len(self._replicas))
                await asyncio.sleep(_PAUSE_SECONDS * numbers.random())
                continue
            self._note(key, operation)
            if operation.is_open:
                self.outcomes["unknown"] += 1
                replica = numbers.randrange(len(self._replicas))
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self.outcomes["answered"] += 1
        self.outcomes["repeated"] += session.repeats
        await caller.close()

    async def _probe(self, replica: int) -> None:
        """Write to one replica again and again without retries, to detect a new primary early."""
        caller = Caller(self._replicas, timeout_seconds=0.25)
        key = replica % self._keys
        while not self._stopping:
            try:
                self._note(key, await self._write(caller, key, "write", replica))
            except NotTaken:
                self.outcomes["probes refused"] += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        await caller.close()

    async def _write(self, to: Caller | Session, key: int, kind: Kind, replica: int = 0) -> Operation:
        """Execute one command: in a session, or as one attempt at a replica."""
        value = f"{key} {next(self._values)}"
        command = _command(key, kind, value)
        invoked = time.monotonic()
        if isinstance(to, Session):
            status = await _propose(to, command)
        else:
            status = await to.propose(replica, command)
        if status is None:
            return Operation(kind, invoked, value=value)
        refused = {Status.TOPIC_NAME_ALREADY_EXISTS, Status.TOPIC_ID_NOT_FOUND}
        assert status is Status.OK or (kind != "write" and status in refused), f"{kind}: {status!r}"
        return Operation(kind, invoked, time.monotonic(), value=value, succeeded=status is Status.OK)


async def _propose(session: Session, command: Command) -> Status | None:
    try:
        response = await session.propose(command, timeout_seconds=_SESSION_SECONDS)
    except CommandNotTakenError as error:
        raise NotTaken(None) from error
    except OutcomeUnknownError:
        return None
    return Status(response.reply.status)


async def _read(caller: Caller, replica: int, key: int) -> Operation:
    invoked = time.monotonic()
    record = await caller.read(replica, key)
    return Operation("read", invoked, time.monotonic(), seen=State(record.stream.name, bool(record.topics)))


def initial(key: int) -> State:
    """Return the state of a key before the first operation."""
    return State(f"{key} initial", locked=False)


def _command(key: int, kind: Kind, value: str) -> Command:
    if kind == "write":
        return Command(update_stream=UpdateStream(stream_id=key, name=value))
    if kind == "unlock":
        return Command(delete_topic=DeleteTopic(stream_id=key, topic_id=0))
    return Command(
        create_topic=CreateTopic(
            stream_id=key,
            name="lock",
            partitions_count=1,
            compression=COMPRESSION_ALGORITHM_NONE,
            message_expiry_micros=2**64 - 1,
            max_size_bytes=2**64 - 1,
            replication_factor=1,
        )
    )


def _raise_if_not_taken(error: aio.AioRpcError) -> None:
    if error.code() in _NOT_TAKEN:
        named = dict(error.trailing_metadata() or ()).get(PRIMARY)
        raise NotTaken(int(named) if named is not None else None) from error
    if error.code() in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT}:
        raise error
