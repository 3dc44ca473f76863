"""Connectors in the process of the server, for `headrace up --connectors`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace.sdk.errors import HeadraceError
from headrace_chassis.errors import StartRefused
from headrace_connectors.app import RunningConnectors, running
from headrace_connectors.commands import pipelines
from headrace_connectors.contract import ConnectorError
from headrace_connectors.pipeline_file.pipeline import Pipeline
from headrace_embedded import Running
from headrace_embedded.config import EmbeddedConfig
from headrace_settings import Address, DefaultOrigin, Loaded


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


class ConnectorsBesideServer:
    """The connectors of a pipeline file, for the process of a server."""

    def __init__(self, file: Path) -> None:
        """Read the file.

        Raises:
            SettingsError: Everything that is wrong in it, each with its line.
        """
        self._pipeline = pipelines.read(file)

    def settings_of(self, loaded: Loaded[EmbeddedConfig]) -> dict[str, str]:
        """Return the settings with which the console and the HTTP API show them, unless others are configured."""
        http = self._pipeline.http
        address = http.address
        origins = (loaded.origin(("http", "connectors", name)) for name in ("url", "token"))
        if address is None or address.port == 0 or not all(isinstance(origin, DefaultOrigin) for origin in origins):
            return {}
        shown = {"http.connectors.url": f"http://{_reachable(address)}"}
        if http.token is not None:
            shown["http.connectors.token"] = http.token.reveal()
        return shown

    @asynccontextmanager
    async def beside(
        self, starting: AbstractAsyncContextManager[Running], on_server: Callable[[Running], object]
    ) -> AsyncIterator[Both]:
        """Run a server with connectors for the duration of an ``async with`` block; the connectors stop first.

        Args:
            starting: Starts the server.
            on_server: Called when the server has started, before the connectors start.

        Raises:
            CommandError: The connectors cannot start.
        """
        async with starting as server, AsyncExitStack() as stack:
            on_server(server)
            placed = _placed(self._pipeline, server)
            try:
                connectors = await stack.enter_async_context(running(placed))
            except (StartRefused, HeadraceError, ConnectorError, OSError) as error:
                reason = f"{error}{_advice(placed)}"
                raise CommandError(f"the connectors of {placed.file} cannot start: {reason}") from error
            _print_started(connectors)
            yield Both(server, connectors)


def _print_started(connectors: RunningConnectors) -> None:
    names = ", ".join(one.key for one in connectors.supervisor.connectors)
    where = f"http://{connectors.http_address}" if connectors.http_address is not None else "not listening"
    output.stdout().print(f"  {'connectors':<12}{names}; status on {where}", markup=False)


def _placed(pipeline: Pipeline, server: Running) -> Pipeline:
    """Return the pipeline with the address of this server, unless the file names one."""
    settings = pipeline.server
    if "url" in settings.model_fields_set:
        return pipeline
    tcp = server.config.tcp
    if not tcp.enabled or tcp.tls.enabled:
        reason = "is encrypted" if tcp.enabled else "is not enabled"
        raise CommandError(f"{pipeline.file}: set server.url, since the server's TCP listener {reason}")
    url = f"headrace://{_reachable(tcp.address)}"
    return replace(pipeline, server=settings.model_copy(update={"url": url}))


def _reachable(address: Address) -> Address | str:
    """Return the address for callers on this machine: one that stands for all addresses cannot be connected to."""
    if not address.ip.is_unspecified:
        return address
    return f"{'[::1]' if address.ip.version == 6 else '127.0.0.1'}:{address.port}"


def _advice(pipeline: Pipeline) -> str:
    if pipeline.server.username is not None or pipeline.server.token is not None:
        return ""
    return (
        "; the file has no login: set server.username and server.password_file, or server.token_file (or the variables "
        "HEADRACE_USERNAME and HEADRACE_PASSWORD)"
    )
