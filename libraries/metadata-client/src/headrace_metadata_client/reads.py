"""Typed reads from the metadata service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from grpc import aio

from headrace_metadata_client.connecting import Connections
from headrace_metadata_client.errors import MetadataUnreachableError
from headrace_metadata_client.replicas import AskAgain, OutOfTime, Replicas
from headrace_proto.catalog.v1 import TopicPlacement
from headrace_proto.metadata.v1 import (
    CONSISTENCY_LINEARIZABLE,
    AccessTokenQuery,
    AccessTokenRecord,
    CredentialsQuery,
    CredentialsRecord,
    GetStatusRequest,
    NodeRecord,
    NodesQuery,
    PlacementQuery,
    ReadRequest,
    ReadResponse,
    ReplicaStatus,
    Transaction,
    TransactionQuery,
    VersionQuery,
)

_STATUS_SECONDS: Final = 1.0


class Reads:
    """Linearizable reads: an answer reflects every command that was acknowledged to any client before the read.

    Any number of reads may be in flight. Each raises `MetadataUnreachableError` if no replica has answered in time, and
    `UnauthenticatedError` if the replicas refuse the caller's credentials.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        reached: Callable[[int], Awaitable[None]] | None = None,
        attempt_seconds: float = 1.0,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Create a reader. Nothing is sent before the first read.

        Args:
            connections: Connections to all replicas.
            reached: Returns when the caller's own catalog view has reached a version: an answer is returned only
                after the view has reached the answer's version.
            attempt_seconds: Time without an answer after which another replica is asked.
            timeout_seconds: Timeout of each read, over all replicas.
        """
        self._connections = connections
        self._reached = reached
        self._replicas = Replicas(connections.stubs, connections.metadata, attempt_seconds)
        self._timeout_seconds = timeout_seconds

    async def credentials_of(self, user_id: int) -> CredentialsRecord | None:
        """Return the credentials of a user; None if the user does not exist."""
        return await self._credentials(CredentialsQuery(user_id=user_id))

    async def credentials_named(self, username: str) -> CredentialsRecord | None:
        """Return the credentials of the user with this name, if there is one."""
        return await self._credentials(CredentialsQuery(username=username))

    async def access_token(self, digest: bytes) -> AccessTokenRecord | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""
        response = await self._read(ReadRequest(access_token=AccessTokenQuery(digest=digest)))
        return response.access_token if response.HasField("access_token") else None

    async def nodes(self) -> list[NodeRecord]:
        """Return the partition nodes with their leases and the number of partitions placed on them, ascending by id."""
        return list((await self._read(ReadRequest(nodes=NodesQuery()))).nodes.nodes)

    async def placement(self, stream_id: int, topic_id: int) -> TopicPlacement | None:
        """Return the placement of the partitions of a topic, if the topic exists and is placed."""
        response = await self._read(ReadRequest(placement=PlacementQuery(stream_id=stream_id, topic_id=topic_id)))
        return response.placement if response.HasField("placement") else None

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last commit under a transaction name, if there is one."""
        response = await self._read(ReadRequest(transaction=TransactionQuery(stream_id=stream_id, name=name)))
        return response.transaction if response.HasField("transaction") else None

    async def version(self) -> int:
        """Return a version of the catalog that is at least that of every earlier answer."""
        return (await self._read(ReadRequest(version=VersionQuery()))).version

    async def catalog_identity(self) -> str:
        """Return the identity of the catalog; empty if it has none yet, or the replica is of an earlier release."""
        return (await self._read(ReadRequest(version=VersionQuery()))).catalog_identity

    async def statuses(self) -> list[ReplicaStatus | None]:
        """Return the status of each replica, in the order of the members; None for those that do not answer."""
        return await statuses(self._connections)

    async def _credentials(self, query: CredentialsQuery) -> CredentialsRecord | None:
        response = await self._read(ReadRequest(credentials=query))
        return response.credentials if response.HasField("credentials") else None

    async def _read(self, request: ReadRequest) -> ReadResponse:
        request.consistency = CONSISTENCY_LINEARIZABLE
        deadline = time.monotonic() + self._timeout_seconds
        reason = "the deadline has passed"
        while True:
            try:
                response: ReadResponse = await self._replicas.ask(
                    lambda stub, **how: stub.Read(request, **how), deadline
                )
            except AskAgain as again:
                reason = str(again)
                continue
            except OutOfTime:
                raise MetadataUnreachableError(f"no replica has answered in time; the last one: {reason}") from None
            if self._reached is not None:
                await self._reached(response.version)
            return response


async def statuses(connections: Connections, timeout_seconds: float = _STATUS_SECONDS) -> list[ReplicaStatus | None]:
    """Query the status of all replicas at once; None for those that do not answer."""

    async def status(index: int) -> ReplicaStatus | None:
        call = connections.stubs[index].GetStatus(
            GetStatusRequest(), metadata=connections.metadata, timeout=timeout_seconds
        )
        try:
            return await call
        except aio.AioRpcError:
            return None

    return list(await asyncio.gather(*(status(index) for index in range(len(connections.stubs)))))
