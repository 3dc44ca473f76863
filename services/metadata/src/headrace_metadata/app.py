"""The service process: one replica of the metadata service with its gRPC server."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from headrace_metadata.api import MetadataService
from headrace_metadata.config import MetadataConfig
from headrace_metadata.expiry_ticker import proposing_the_time
from headrace_metadata.metrics import Metrics
from headrace_metadata.native import NativeReplica, ReplicaDescription
from headrace_metadata.peer_certificates import PeerCertificates
from headrace_metadata.replica import Replica
from headrace_metadata.server import Served, serving
from headrace_metadata.status import ReplicaFacts
from headrace_node.edge import ReloadSignal
from headrace_node.tracing import recorded
from headrace_proto.cluster_token import metrics_authorization
from headrace_settings import Address

MakeNative = Callable[[str], NativeReplica]
"""`headrace_core.MetadataReplica`: takes the document that describes a replica."""

RELEASE: Final = version("headrace")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningService:
    """A replica that answers calls."""

    replica: Replica
    grpc: Served
    metrics_address: Address | None
    peer_certificates: PeerCertificates

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""
        await self.grpc.reload_certificates()
        await self.peer_certificates.look()


@asynccontextmanager
async def running(config: MetadataConfig, make_native: MakeNative) -> AsyncIterator[RunningService]:
    """Run one replica with its gRPC server for the duration of an ``async with`` block.

    Raises:
        MetadataError: The service cannot be offered.
        Exception: Start errors of the native replica.
    """
    description = ReplicaDescription(
        directory=Path(config.system.path), cluster=config.cluster, state=config.system.state, tls=config.tls
    )
    facts = ReplicaFacts(
        cluster_name=config.cluster.name,
        replica=config.cluster.replica,
        members=config.cluster.members,
        release=RELEASE,
        started_at_micros=time.time_ns() // 1000,
    )
    async with AsyncExitStack() as stack:
        native = make_native(description.document())
        replica = await stack.enter_async_context(await Replica.open(native))
        peer_certificates = PeerCertificates(native)
        if config.tls.files is not None:
            interval_seconds = config.tls.certificate_check_interval.seconds
            await stack.enter_async_context(peer_certificates.watched(interval_seconds))
        await stack.enter_async_context(proposing_the_time(replica))
        metrics = Metrics(replica.status)
        replica.on_applied(metrics.applied)
        tracing = await stack.enter_async_context(recorded(config.tracing, None, release=RELEASE))
        service = MetadataService(replica, facts, metrics, tracing)
        served = await stack.enter_async_context(
            serving(service, replica, config.grpc.address, config.cluster, config.tls, tracing)
        )
        metrics_address = stack.enter_context(metrics.served(config.metrics.address, _metrics_headers(config)))
        yield RunningService(replica, served, metrics_address, peer_certificates)


async def serve(config: MetadataConfig, make_native: MakeNative) -> None:
    """Run until the process is asked to stop (SIGINT, SIGTERM) or the replica halts.

    Raises:
        MetadataError: The service cannot be offered, or the replica halted.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    reload_signal = ReloadSignal()
    async with running(config, make_native) as service:
        reload_signal.calls(service.reload_certificates)
        _log.info(
            "metadata replica %d of %d serves gRPC on %s",
            config.cluster.replica,
            len(config.cluster.members),
            service.grpc.address,
        )
        stopping = asyncio.ensure_future(stop.wait())
        failing = asyncio.ensure_future(service.replica.wait_stopped())
        await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if failing.done():
            failing.result()
        failing.cancel()


def _metrics_headers(config: MetadataConfig) -> tuple[str, ...]:
    return tuple(metrics_authorization(secret, config.cluster.name) for secret in config.cluster.secrets)
