"""Questions to the metadata service, with answers that have types."""

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
    """Answers that have seen every command that anybody was answered before the question (linearizable).

    Any number of questions may be under way. Each raises `MetadataUnreachableError` when nobody has answered in time,
    and `StrangerError` when the replicas do not accept the caller.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        reached: Callable[[int], Awaitable[None]] | None = None,
        attempt_seconds: float = 1.0,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Nothing is sent before the first question.

        Args:
            connections: To all replicas.
            reached: Returns when the caller's own picture of the catalogue has come to a version: an answer is given
                when it has come to that of the answer.
            attempt_seconds: After so long without an answer another replica is asked.
            timeout_seconds: For each question, over all replicas.
        """
        self._connections = connections
        self._reached = reached
        self._replicas = Replicas(connections.stubs, connections.metadata, attempt_seconds)
        self._timeout_seconds = timeout_seconds

    async def credentials_of(self, user_id: int) -> CredentialsRecord | None:
        """Return the credentials of a user, if there is such a user."""
        return await self._credentials(CredentialsQuery(user_id=user_id))

    async def credentials_named(self, username: str) -> CredentialsRecord | None:
        """Return the credentials of the user with this name, if there is one."""
        return await self._credentials(CredentialsQuery(username=username))

    async def access_token(self, digest: bytes) -> AccessTokenRecord | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""
        response = await self._read(ReadRequest(access_token=AccessTokenQuery(digest=digest)))
        return response.access_token if response.HasField("access_token") else None

    async def nodes(self) -> list[NodeRecord]:
        """Return the partition nodes with their leases and how much is placed on them, ascending by id."""
        return list((await self._read(ReadRequest(nodes=NodesQuery()))).nodes.nodes)

    async def placement(self, stream_id: int, topic_id: int) -> TopicPlacement | None:
        """Return where the partitions of a topic are, if the topic exists and is placed."""
        response = await self._read(ReadRequest(placement=PlacementQuery(stream_id=stream_id, topic_id=topic_id)))
        return response.placement if response.HasField("placement") else None

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return what was committed last under a name, if anything was."""
        response = await self._read(ReadRequest(transaction=TransactionQuery(stream_id=stream_id, name=name)))
        return response.transaction if response.HasField("transaction") else None

    async def version(self) -> int:
        """Return a version of the catalogue that no answer before the question was newer than."""
        return (await self._read(ReadRequest(version=VersionQuery()))).version

    async def statuses(self) -> list[ReplicaStatus | None]:
        """Return how each replica says it is, in the order of the members; nothing for those that do not answer."""
        return await statuses(self._connections)

    async def _credentials(self, query: CredentialsQuery) -> CredentialsRecord | None:
        response = await self._read(ReadRequest(credentials=query))
        return response.credentials if response.HasField("credentials") else None

    async def _read(self, request: ReadRequest) -> ReadResponse:
        request.consistency = CONSISTENCY_LINEARIZABLE
        deadline = time.monotonic() + self._timeout_seconds
        reason = "there was no time"
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
    """Ask every replica at once how it is; nothing for those that do not answer."""

    async def status(index: int) -> ReplicaStatus | None:
        call = connections.stubs[index].GetStatus(
            GetStatusRequest(), metadata=connections.metadata, timeout=timeout_seconds
        )
        try:
            return await call
        except aio.AioRpcError:
            return None

    return list(await asyncio.gather(*(status(index) for index in range(len(connections.stubs)))))
