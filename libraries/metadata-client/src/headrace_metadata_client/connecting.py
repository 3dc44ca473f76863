"""Connections to all replicas of the metadata service, and their renewal when the authority changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grpc import aio

from headrace_metadata_client.access import CHANNEL_OPTIONS, MetadataTarget
from headrace_metadata_client.errors import AuthorityError
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

if TYPE_CHECKING:
    from headrace_proto.metadata.v1.service_pb2_grpc import MetadataAsyncStub

_CHECK_SECONDS: Final = 10.0
# Time until former connections are closed. Calls in flight when the authority changed have far shorter timeouts.
_LINGER_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Connections:
    """Connections to all replicas, in the order of the members. Nothing is sent before the first call."""

    addresses: tuple[str, ...]
    stubs: Sequence[MetadataAsyncStub]
    """Stubs of the replicas. Elements are replaced on renewal: each call must take the current one."""
    metadata: tuple[tuple[str, str], ...]
    """Metadata of every call."""
    generation: int = 0
    """Number of renewals. Long-lived calls must be restarted when it changes, as their connections cannot reconnect."""
    renewal: Renewal | None = field(default=None, repr=False)

    async def renew(self) -> None:
        """Check for a new authority now; the outcome is logged."""
        if self.renewal is not None:
            await self.renewal.look()


class Renewal:
    """Checks for a new authority, and replaces the stubs by ones on new connections."""

    def __init__(self, target: MetadataTarget, connections: Connections, stubs: list[Any]) -> None:
        self._target = target
        self._connections = connections
        self._stubs = stubs
        self._channels: list[aio.Channel] = []
        self._seen: bytes | None = None
        self._complaint = ""
        self._closing: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Open the first connections.

        Raises:
            AuthorityError: The file with the authority cannot be read.
        """
        self._seen = self._target.authority_pem()
        self._open(self._seen)

    async def run(self) -> None:
        """Check periodically, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Check now."""
        try:
            pem = await asyncio.to_thread(self._target.authority_pem)
        except AuthorityError as error:
            if str(error) != self._complaint:
                _log.warning("new cluster authority rejected, the previous one stays in use: %s", error)
            self._complaint = str(error)
            return
        self._complaint = ""
        if pem == self._seen:
            return
        self._seen = pem
        before = self._channels
        self._open(pem)
        self._connections.generation += 1
        _log.info("cluster authority replaced by the one in %s", self._target.authority)
        task = asyncio.create_task(_close(before), name="metadata-channels")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await asyncio.gather(*(channel.close() for channel in self._channels))

    def _open(self, pem: bytes | None) -> None:
        credentials = self._target.channel_credentials(pem)
        self._channels = [
            aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            if credentials is None
            else aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
            for address in self._target.addresses
        ]
        self._stubs[:] = [MetadataStub(channel) for channel in self._channels]


async def _close(channels: list[aio.Channel]) -> None:
    try:
        await asyncio.sleep(_LINGER_SECONDS)
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


@asynccontextmanager
async def connected(target: MetadataTarget) -> AsyncIterator[Connections]:
    """Provide connections to all replicas for the duration of an ``async with`` block.

    An unreachable replica is noticed by the first call to it.

    Raises:
        AuthorityError: The file with the authority cannot be read, or holds no certificate.
    """
    stubs: list[Any] = []
    connections = Connections(target.addresses, stubs, target.call_metadata())
    renewal = Renewal(target, connections, stubs)
    renewal.begin()
    watching = None
    if target.authority is not None:
        connections.renewal = renewal
        watching = asyncio.create_task(renewal.run(), name="metadata-authority")
    try:
        yield connections
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait({watching})
        await renewal.close()
