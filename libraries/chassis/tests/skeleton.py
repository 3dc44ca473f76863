"""The smallest service on the chassis: settings, logs, health, metrics, TLS and gRPC. ``python skeleton.py``."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import Gauge

from headrace_chassis import admin_http, certificates, log_output
from headrace_chassis.certificates import CertificateFiles
from headrace_chassis.grpc import server as grpc
from headrace_chassis.lifecycle import Lifecycle
from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.metrics import registry
from headrace_chassis.process import ServiceProcess
from headrace_settings import Address, Duration, Loaded, Section, load

PREFIX: Final = "HEADRACE_SKELETON"

_log = logging.getLogger(__name__)


class ListenSettings(Section):
    """``[listen]``: addresses and certificate."""

    grpc: Address = Address.parse("127.0.0.1:0")
    """Address of gRPC."""
    http: Address = Address.parse("127.0.0.1:0")
    """Address of health and metrics."""
    cert_file: str
    """PEM file with the certificate."""
    key_file: str
    """PEM file with its key."""


class SkeletonConfig(Section):
    """All settings."""

    listen: ListenSettings
    logging: LoggingSettings = LoggingSettings()
    start_time: Duration = Duration.parse("0 s")
    """Time that the start takes, as if another service were waited for."""
    stop_time: Duration = Duration.parse("0 s")
    """Time that the stop takes, as if a device were waited for."""


def load_config(file: Path | None, environment: Mapping[str, str]) -> Loaded[SkeletonConfig]:
    """Read the settings of the process."""
    return load(SkeletonConfig, file=file, environment=environment, prefix=PREFIX)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A running skeleton."""

    served: grpc.Served
    life: Lifecycle

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set."""
        await self.life.until(stop.wait())

    async def reload_certificates(self) -> None:
        """Check for a new certificate now."""
        await self.served.reload_certificates()

    def log_addresses(self) -> None:
        """Write the addresses to the log, as fields."""
        _log.info("serving", extra={"grpc": str(self.served.address)})


@asynccontextmanager
async def running(config: SkeletonConfig) -> AsyncIterator[Skeleton]:
    """Run the service for the duration of an ``async with`` block."""
    life, listen, metrics = Lifecycle(), config.listen, registry()
    ready = Gauge("headrace_skeleton_ready", "1 while clients should come.", registry=metrics)
    ready.set_function(lambda: life.state == "running")
    files = CertificateFiles(section="listen", chain=Path(listen.cert_file), key=Path(listen.key_file))
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            admin_http.serving(listen.http, health=life.health, metrics=metrics, authorizations=("Bearer t",))
        )
        _log.info("starting", extra={"http": str(http)})
        await asyncio.sleep(config.start_time.seconds)
        certificate = await stack.enter_async_context(certificates.watched(files, interval_seconds=3600))
        served = await stack.enter_async_context(
            grpc.serving(listen.grpc, lambda _: None, names=(), certificates=certificate)
        )
        await served.report(is_ready=True)
        with life.running():
            yield Skeleton(served, life)
        await asyncio.sleep(config.stop_time.seconds)


PROCESS = ServiceProcess(
    package="skeleton",
    description="Run the smallest service in the foreground.",
    prefix=PREFIX,
    model=SkeletonConfig,
    load=load_config,
    configure_log=lambda config: log_output.configure(config.logging, service="skeleton"),
    running=lambda loaded: running(loaded.config),
    on_started=Skeleton.log_addresses,
)

if __name__ == "__main__":
    sys.exit(PROCESS.main(sys.argv[1:]))
