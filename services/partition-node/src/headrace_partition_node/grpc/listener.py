"""Assembly of the gRPC listener for raw batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from headrace_chassis import certificates
from headrace_chassis.certificates import CertificateFiles
from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.server import Served
from headrace_chassis.shares import Shares
from headrace_node.connections.sessions import Sessions
from headrace_partition_node.config import GrpcSettings
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.server import Limits, serving
from headrace_partition_node.grpc.service import PartitionService, ThisNode
from headrace_partition_node.grpc.shard_requests import Shards
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Tickets


@asynccontextmanager
async def opened(
    config: GrpcSettings,
    certificate: CertificateFiles | None,
    *,
    certificate_check_seconds: float,
    sessions: Sessions,
    tickets: Tickets,
    memory: Pool,
    calls: Shares,
    poll_bytes_max: int,
    section: str = "grpc",
    node: ThisNode | None = None,
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block.

    Args:
        config: Address and limits.
        certificate: Certificate and key; None: no TLS. Callers authenticate with tickets, so none is requested of them.
        certificate_check_seconds: Interval of checks for a changed certificate.
        sessions: Sessions with the shards of this process.
        tickets: Checks tickets.
        memory: Pool budget of all calls.
        calls: Limit of concurrent calls.
        section: Section of these settings, for the log.
        poll_bytes_max: Maximum size of one poll of the shards, except for a single larger message.
        node: The node as part of a cluster; None: not part of a cluster.

    Raises:
        ListenError: The address cannot be bound.
        CertificateError: A TLS file cannot be read or used.
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
        Places(config.max_connections, f"{section}.max_connections"),
    )
    limits = Limits(
        calls_max=config.max_calls,
        request_bytes_max=config.max_request_size.bytes,
    )
    async with AsyncExitStack() as stack:
        watching = certificates.watched(certificate, certificate_check_seconds)
        shown = await stack.enter_async_context(watching)
        served = await stack.enter_async_context(serving(service, config.address, shown, limits))
        # Runs before the server drains its calls: calls that wait for messages end.
        stack.callback(shards.close)
        yield served
