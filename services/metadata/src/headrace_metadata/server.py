"""The gRPC server of the process: the service, health, reflection; encryption and the shared secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace_metadata.authentication import SharedSecretInterceptor
from headrace_metadata.config import ClusterSettings, TlsSettings
from headrace_metadata.errors import ListenError
from headrace_metadata.replica import Replica
from headrace_metadata.traced_calls import TracedCalls
from headrace_node.grpc.certificates import CertificateError, CertificateFiles, Certificates
from headrace_node.tracing import Tracing
from headrace_proto.metadata.v1 import service_pb2
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataServicer, add_MetadataServicer_to_server
from headrace_settings import Address

_SERVICE: Final[ServiceDescriptor] = service_pb2.DESCRIPTOR.services_by_name["Metadata"]
_GRACE_SECONDS: Final = 2.0
# Each gateway and each node has a few calls at a time.
_CALLS_MAX: Final = 16_384
_OPTIONS: Final[Sequence[tuple[str, Any]]] = (
    # A second process on the same port would silently take half of the calls.
    ("grpc.so_reuseport", 0),
    # A whole catalog is one message.
    ("grpc.max_send_message_length", 256 * 1024 * 1024),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


@dataclass(frozen=True, slots=True)
class Served:
    """The service, reachable for callers."""

    address: Address
    """Address actually bound."""
    certificates: Certificates | None

    async def reload_certificates(self) -> None:
        """Check for a new certificate now; the result is logged."""
        if self.certificates is not None:
            await self.certificates.look()


@asynccontextmanager
async def serving(
    service: MetadataServicer,
    replica: Replica,
    address: Address,
    cluster: ClusterSettings,
    tls: TlsSettings,
    tracing: Tracing | None = None,
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block.

    Args:
        service: Service that answers the calls.
        replica: Its replica.
        address: Address to listen on.
        cluster: Settings of the cluster, with the accepted secrets.
        tls: TLS settings.
        tracing: Creates spans of calls, if enabled.

    Raises:
        ListenError: The address cannot be bound, or a TLS file cannot be read or used.
    """
    interceptors: list[aio.ServerInterceptor] = []
    if cluster.secrets:
        interceptors.append(SharedSecretInterceptor(cluster.secrets, cluster.name))
    if tracing is not None:
        interceptors.append(TracedCalls(tracing))
    certificates = await asyncio.to_thread(_certificates, tls)
    server = aio.server(interceptors=interceptors, options=_OPTIONS, maximum_concurrent_rpcs=_CALLS_MAX)
    add_MetadataServicer_to_server(service, server)
    healths = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healths, server)
    names = (_SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    bound = await asyncio.to_thread(_bind, server, address, certificates)

    changes: asyncio.Queue[str] = asyncio.Queue()
    replica.on_role(changes.put_nowait)
    await server.start()
    reporting = asyncio.create_task(_report_health(healths, changes), name="metadata-health")
    try:
        async with AsyncExitStack() as stack:
            if certificates is not None:
                await stack.enter_async_context(certificates.watched(tls.certificate_check_interval.seconds))
            yield Served(bound, certificates)
    finally:
        reporting.cancel()
        await healths.enter_graceful_shutdown()
        await server.stop(_GRACE_SECONDS)


def _bind(server: aio.Server, address: Address, certificates: Certificates | None) -> Address:
    try:
        if certificates is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), certificates.credentials())
    except (RuntimeError, OSError, ValueError) as error:
        raise ListenError(f"gRPC cannot be served on {address}: {error}") from error
    if port == 0:
        raise ListenError(f"gRPC cannot be served on {address}: the address cannot be bound")
    return address.with_port(port)


def _certificates(tls: TlsSettings) -> Certificates | None:
    if tls.files is None:
        return None
    certificate, key, _ = (Path(file) for file in tls.files)
    # Callers authenticate with the token; no client certificates are requested.
    files = CertificateFiles(listener="tls", chain=certificate, key=key)
    try:
        return Certificates(files, lambda: datetime.now(UTC))
    except CertificateError as error:
        raise ListenError(f"gRPC cannot be served: {error}") from error


async def _report_health(healths: health.aio.HealthServicer, roles: asyncio.Queue[str]) -> None:
    """Report the service as serving while this replica is a backup or the primary: it answers or redirects."""
    serving_status = health_pb2.HealthCheckResponse.SERVING
    not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
    while True:
        role = await roles.get()
        status = serving_status if role in {"primary", "backup"} else not_serving
        for name in ("", _SERVICE.full_name):
            await healths.set(name, status)
