"""A metadata service for the tests of a file, and nodes that belong to it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace_metadata_client import Connections, MetadataTarget, Reads, Session, connected
from headrace_proto.catalog.v1 import (
    USER_STATUS_ACTIVE,
    CompressionAlgorithm,
    GlobalPermissions,
    Permissions,
    Topic,
)
from headrace_proto.metadata.v1 import Command, CreateStream, CreateTopic, CreateUser, Reply
from headrace_proto.well_known import NEVER_EXPIRES, ROOT_USER_ID, UNLIMITED
from tests.metadata_replicas import NAME, SECRET, ReplicaProcess
from tests.partition_nodes import NodeProcess
from tests.ports import free_port

MakeNode = Callable[..., NodeProcess]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaProcess]:
    """A metadata service of one replica."""
    ports = (free_port(), free_port())
    replica = ReplicaProcess(tmp_path_factory.mktemp("metadata"), 0, [f"127.0.0.1:{ports[0]}"], ports, {})
    replica.start()
    yield replica
    replica.kill()


@pytest.fixture
def make_node(metadata: ReplicaProcess, tmp_path: Path) -> Iterator[MakeNode]:
    """Create nodes that are stopped at the end of the test."""
    with ExitStack() as stack:

        def make(name: str, *, directory: Path = tmp_path, **settings: str) -> NodeProcess:
            node = NodeProcess(directory, name, [metadata.address], settings)
            stack.callback(node.kill)
            return node

        yield make


class Catalog:
    """Commands and queries to the metadata service."""

    def __init__(self, connections: Connections) -> None:
        self._session = Session(connections.stubs, connections.metadata)
        self.reads = Reads(connections)

    async def propose(self, **operation: object) -> Reply:
        """Have a command applied."""
        reply = (await self._session.propose(Command(actor_user_id=0, **operation))).reply  # type: ignore[arg-type]
        assert reply.status == 0, reply
        return reply

    async def root(self) -> None:
        """Create the first user, as the first gateway does, unless there is one."""
        if await self.reads.credentials_of(ROOT_USER_ID) is None:
            everything = Permissions()
            rights = getattr(everything, "global")
            for field in GlobalPermissions.DESCRIPTOR.fields:
                setattr(rights, field.name, True)
            await self.propose(
                create_user=CreateUser(
                    username="root", password_hash="$argon2id$", status=USER_STATUS_ACTIVE, permissions=everything
                )
            )

    async def topic(self, name: str, partitions_count: int) -> Topic:
        """Create a stream and a topic, both of this name."""
        stream = (await self.propose(create_stream=CreateStream(name=name))).stream
        topic = CreateTopic(
            stream_id=stream.id,
            name=name,
            partitions_count=partitions_count,
            compression=CompressionAlgorithm.COMPRESSION_ALGORITHM_NONE,
            message_expiry_micros=NEVER_EXPIRES,
            max_size_bytes=UNLIMITED,
            replication_factor=1,
        )
        return (await self.propose(create_topic=topic)).topic


@pytest.fixture
async def catalog(metadata: ReplicaProcess) -> AsyncIterator[Catalog]:
    """Clients of the metadata service."""
    target = MetadataTarget(addresses=(metadata.address,), cluster=NAME, secret=SECRET, authority=None)
    async with connected(target) as connections:
        yield Catalog(connections)
