"""Connections to all replicas of the metadata service, and how they are made anew when their authority changes."""

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
# By then calls that were under way when the authority changed have ended: they have limits far below.
_LINGER_SECONDS: Final = 30.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Connections:
    """All replicas, in the order of the members. Nothing is sent before the first call."""

    addresses: tuple[str, ...]
    stubs: Sequence[MetadataAsyncStub]
    """Of which the elements change: a call is made on the one that is there when it begins."""
    metadata: tuple[tuple[str, str], ...]
    """What every call carries."""
    generation: int = 0
    """Grows when the stubs are others. Calls that last have to be made anew then: theirs is a connection that cannot
    come back."""
    renewal: Renewal | None = field(default=None, repr=False)

    async def renew(self) -> None:
        """Look now whether there is another authority; what comes of it is logged."""
        if self.renewal is not None:
            await self.renewal.look()


class Renewal:
    """Looks for another authority, and puts stubs on new connections in the place of the old ones."""

    def __init__(self, target: MetadataTarget, connections: Connections, stubs: list[Any]) -> None:
        self._target = target
        self._connections = connections
        self._stubs = stubs
        self._channels: list[aio.Channel] = []
        self._seen: bytes | None = None
        self._complaint = ""
        self._closing: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Make the first connections.

        Raises:
            AuthorityError: The file with the authority cannot be read.
        """
        self._seen = self._target.authority_pem()
        self._open(self._seen)

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look now."""
        try:
            pem = await asyncio.to_thread(self._target.authority_pem)
        except AuthorityError as error:
            if str(error) != self._complaint:
                _log.warning("the new authority of the cluster is not used: %s", error)
            self._complaint = str(error)
            return
        self._complaint = ""
        if pem == self._seen:
            return
        self._seen = pem
        before = self._channels
        self._open(pem)
        self._connections.generation += 1
        _log.info("replicas of the metadata service are trusted by what %s holds now", self._target.authority)
        task = asyncio.create_task(_close(before), name="metadata-channels")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close everything."""
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
    """Have connections to all replicas for the length of an ``async with`` block. One that is down shows with a call.

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
