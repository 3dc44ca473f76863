"""The parts of the port for whole batches, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace_partition_node.config import GrpcSettings
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.memory import Memory
from headrace_partition_node.grpc.polls import Shards
from headrace_partition_node.grpc.server import Limits, Served, serving
from headrace_partition_node.grpc.service import Calls, PartitionService, ThisNode
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Tickets
from headrace_shards.sessions import Sessions


@asynccontextmanager
async def opened(
    config: GrpcSettings,
    certificate: tuple[Path, Path] | None,
    *,
    sessions: Sessions,
    tickets: Tickets,
    memory: Memory,
    calls: Calls,
    poll_bytes_max: int,
    node: ThisNode | None = None,
) -> AsyncIterator[Served]:
    """Serve for the length of an ``async with`` block.

    Args:
        config: Where, and what callers may use.
        certificate: Files with the certificate and its key; None: nothing is encrypted.
        sessions: With the shards of this process.
        tickets: What callers may do.
        memory: What all calls may hold.
        calls: Counts them.
        poll_bytes_max: So much one poll of the shards returns at most, unless its first message alone is larger.
        node: As a part of a cluster; None: it is none.

    Raises:
        ListenError: The address cannot be bound, or a file for the encryption cannot be read or used.
    """
    shards = Shards(sessions)
    service = PartitionService(
        node,
        shards,
        tickets,
        Fetching(shards, tickets, memory, poll_bytes_max=poll_bytes_max),
        Appending(shards, tickets, memory),
        Staging(shards, tickets, memory),
        calls,
    )
    limits = Limits(
        connections_max=config.max_connections,
        calls_max=config.max_calls,
        request_bytes_max=config.max_request_size.bytes,
    )
    async with serving(service, config.address, certificate, limits) as served:
        try:
            yield served
        finally:
            # Before the server waits for its calls: those that wait for messages end.
            shards.close()
