"""Connections to all replicas of the metadata service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpc import aio

from headrace_metadata_client.access import CHANNEL_OPTIONS, MetadataTarget
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub

if TYPE_CHECKING:
    from headrace_proto.metadata.v1.service_pb2_grpc import MetadataAsyncStub


@dataclass(frozen=True, slots=True)
class Connections:
    """All replicas, in the order of the members. Nothing is sent before the first call."""

    addresses: tuple[str, ...]
    stubs: tuple[MetadataAsyncStub, ...]
    metadata: tuple[tuple[str, str], ...]
    """What every call carries."""


@asynccontextmanager
async def connected(target: MetadataTarget) -> AsyncIterator[Connections]:
    """Have connections to all replicas for the length of an ``async with`` block. One that is down shows with a call.

    Raises:
        AuthorityError: The file with the authority cannot be read.
    """
    credentials = target.channel_credentials()
    async with AsyncExitStack() as stack:
        stubs = []
        for address in target.addresses:
            channel = (
                aio.insecure_channel(address, options=CHANNEL_OPTIONS)
                if credentials is None
                else aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
            )
            await stack.enter_async_context(channel)
            stubs.append(MetadataStub(channel))
        yield Connections(target.addresses, tuple(stubs), target.call_metadata())
