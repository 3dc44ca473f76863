"""The parts of the port for whole batches, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from headrace_partition_node.config import GrpcSettings
from headrace_partition_node.errors import ListenError
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.memory import Memory
from headrace_partition_node.grpc.polls import Shards
from headrace_partition_node.grpc.server import Limits, Served, serving
from headrace_partition_node.grpc.service import Calls, PartitionService, ThisNode
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Tickets
from headrace_settings import Address
from headrace_shards.grpc_certificates import CertificateError, CertificateFiles, Certificates
from headrace_shards.sessions import Sessions


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
    """Serve for the length of an ``async with`` block.

    Args:
        config: Where, and what callers may use.
        certificate: Files with the certificate and its key; None: nothing is encrypted.
        certificate_check_seconds: How often it is looked for a new one.
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
    async with AsyncExitStack() as stack:
        certificates = certificates_of(certificate, config.address)
        if certificates is not None:
            await stack.enter_async_context(certificates.watched(certificate_check_seconds))
        served = await stack.enter_async_context(serving(service, config.address, certificates, limits))
        # Before the server waits for its calls: those that wait for messages end.
        stack.callback(shards.close)
        yield served


def certificates_of(certificate: tuple[Path, Path] | None, address: Address) -> Certificates | None:
    """What is shown by a server at this address, which has its certificate and its key in these files, if in any.

    Raises:
        ListenError: They cannot be read or used.
    """
    if certificate is None:
        return None
    chain, key = certificate
    # Callers are known by their tickets; their certificates are not asked for.
    files = CertificateFiles(door="tls", chain=chain, key=key)
    try:
        return Certificates(files, lambda: datetime.now(UTC))
    except CertificateError as error:
        raise ListenError(f"gRPC cannot be served on {address}: {error}") from error
