"""The service process: one replica of the metadata service with its gRPC server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from headrace_chassis import admin_http
from headrace_chassis.cluster_secrets import metrics_authorizations
from headrace_chassis.grpc.server import Served
from headrace_chassis.lifecycle import Lifecycle
from headrace_metadata.api import MetadataService
from headrace_metadata.config import MetadataConfig
from headrace_metadata.expiry_ticker import proposing_the_time
from headrace_metadata.metrics import Metrics
from headrace_metadata.native import NativeReplica, ReplicaDescription
from headrace_metadata.peer_certificates import PeerCertificates
from headrace_metadata.replica import Replica
from headrace_metadata.server import serving
from headrace_metadata.status import ReplicaFacts
from headrace_node.tracing import recorded
from headrace_settings import Address

MakeNative = Callable[[str], NativeReplica]
"""`headrace_core.MetadataReplica`: takes the document that describes a replica."""

RELEASE: Final = version("headrace")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningService:
    """A replica that answers calls."""

    config: MetadataConfig
    replica: Replica
    grpc: Served
    metrics_address: Address | None
    peer_certificates: PeerCertificates
    _life: Lifecycle

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set.

        Raises:
            MetadataError: The replica has halted.
        """
        await self._life.until(stop.wait())

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""
        await self.grpc.reload_certificates()
        await self.peer_certificates.look()

    def log_addresses(self) -> None:
        """Write to the log where this replica is reached."""
        cluster = self.config.cluster
        _log.info(
            "metadata replica %d of %d serves gRPC on %s", cluster.replica, len(cluster.members), self.grpc.address
        )


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
    life = Lifecycle()
    async with AsyncExitStack() as stack:
        native = make_native(description.document())
        replica = await stack.enter_async_context(await Replica.open(native))
        await stack.enter_async_context(life.essential(replica.wait_stopped(), "replica"))
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
        metrics_address = await stack.enter_async_context(
            admin_http.serving(
                config.metrics.address,
                health=metrics.health,
                metrics=metrics.registry,
                authorizations=metrics_authorizations(config.cluster.secrets, config.cluster.name),
            )
        )
        with life.running():
            yield RunningService(config, replica, served, metrics_address, peer_certificates, life)
