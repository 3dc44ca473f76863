"""Connectors in the process of the server, for `headrace up --connectors`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from headrace.cli.errors import CommandError
from headrace.embedded import Running
from headrace.sdk.errors import HeadraceError
from headrace_chassis.errors import StartRefused
from headrace_connectors.app import RunningConnectors, running
from headrace_connectors.contract import ConnectorError
from headrace_connectors.pipeline_file.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Both:
    """A server, and the connectors beside it."""

    server: Running
    connectors: RunningConnectors

    async def reload_certificates(self) -> None:
        """Check for new certificates of the server."""
        await self.server.reload_certificates()

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set, or one of them fails.

        Raises:
            Exception: The failure.
        """
        waiting = [asyncio.create_task(self.server.until(stop)), asyncio.create_task(self.connectors.until(stop))]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)


@asynccontextmanager
async def beside(
    starting: AbstractAsyncContextManager[Running], pipeline: Pipeline, on_server: Callable[[Running], object]
) -> AsyncIterator[Both]:
    """Run a server with connectors for the duration of an ``async with`` block; the connectors stop first.

    Args:
        starting: Starts the server.
        pipeline: The connectors.
        on_server: Called when the server has started, before the connectors start.

    Raises:
        CommandError: The connectors cannot start.
    """
    async with starting as server, AsyncExitStack() as stack:
        on_server(server)
        placed = _placed(pipeline, server)
        try:
            connectors = await stack.enter_async_context(running(placed))
        except (StartRefused, HeadraceError, ConnectorError, OSError) as error:
            raise CommandError(f"the connectors of {pipeline.file} cannot start: {error}{_advice(placed)}") from error
        yield Both(server, connectors)


def _placed(pipeline: Pipeline, server: Running) -> Pipeline:
    """Return the pipeline with the address of this server, unless the file names one."""
    settings = pipeline.server
    if "url" in settings.model_fields_set:
        return pipeline
    tcp = server.config.tcp
    if not tcp.enabled or tcp.tls.enabled:
        reason = "is encrypted" if tcp.enabled else "is not enabled"
        raise CommandError(f"{pipeline.file}: set server.url, since the server's TCP listener {reason}")
    address = tcp.address
    if address.ip.is_unspecified:
        host = "[::1]" if address.ip.version == 6 else "127.0.0.1"
        url = f"headrace://{host}:{address.port}"
    else:
        url = f"headrace://{address}"
    return replace(pipeline, server=settings.model_copy(update={"url": url}))


def _advice(pipeline: Pipeline) -> str:
    if pipeline.server.username is not None or pipeline.server.token is not None:
        return ""
    return (
        "; the file has no login: set server.username and server.password_file, or server.token_file (or the variables "
        "HEADRACE_USERNAME and HEADRACE_PASSWORD)"
    )
