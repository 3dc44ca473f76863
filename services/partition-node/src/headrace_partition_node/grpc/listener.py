"""Assembly of the gRPC listener for raw batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from headrace_node.connections.sessions import Sessions
from headrace_node.grpc.certificates import CertificateError, CertificateFiles, Certificates
from headrace_partition_node.config import GrpcSettings
from headrace_partition_node.errors import ListenError
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.memory import Memory
from headrace_partition_node.grpc.server import Limits, Served, serving
from headrace_partition_node.grpc.service import Calls, PartitionService, ThisNode
from headrace_partition_node.grpc.shard_requests import Shards
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Tickets
from headrace_settings import Address


@asynccontextmanager
async def opened(
    config: GrpcSettings,
    certificate: tuple[Path, Path] | None,
    *,
    certificate_check_seconds: float,
    sessions: Sessions,
    tickets: Tickets,
    memory: Memory,
    calls: Calls,
    poll_bytes_max: int,
    node: ThisNode | None = None,
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block.

    Args:
        config: Address and limits.
        certificate: Files with the certificate and its key; None: no TLS.
        certificate_check_seconds: Interval of checks for a changed certificate.
        sessions: Sessions with the shards of this process.
        tickets: Checks tickets.
        memory: Memory budget of all calls.
        calls: Limit of concurrent calls.
        poll_bytes_max: Maximum size of one poll of the shards, except for a single larger message.
        node: The node as part of a cluster; None: not part of a cluster.

    Raises:
        ListenError: The address cannot be bound, or a TLS file cannot be read or used.
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
    async with AsyncExitStack() as stack:
        certificates = certificates_of(certificate, config.address)
        if certificates is not None:
            await stack.enter_async_context(certificates.watched(certificate_check_seconds))
        served = await stack.enter_async_context(serving(service, config.address, certificates, limits))
        # Runs before the server drains its calls: calls that wait for messages end.
        stack.callback(shards.close)
        yield served


def certificates_of(certificate: tuple[Path, Path] | None, address: Address) -> Certificates | None:
    """Return the certificates of a server at this address, given the files; None without files.

    Raises:
        ListenError: The files cannot be read or used.
    """
    if certificate is None:
        return None
    chain, key = certificate
    # Callers authenticate with tickets; no client certificates are requested.
    files = CertificateFiles(listener="tls", chain=chain, key=key)
    try:
        return Certificates(files, lambda: datetime.now(UTC))
    except CertificateError as error:
        raise ListenError(f"gRPC cannot be served on {address}: {error}") from error
