"""The HTTP server, running for the duration of an ``async with`` block."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NoReturn, cast

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client.registry import Collector

from headrace_chassis.certificates import Certificates
from headrace_chassis.errors import CertificateError, ListenError
from headrace_chassis.http_connections import Connections
from headrace_chassis.open_files import connections_max
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.proxies import NONE, Proxies
from headrace_gateway.access.tokens import Tokens
from headrace_gateway.audit.metrics import TrailCollector
from headrace_gateway.connectors.client import ConnectorsClient
from headrace_gateway.console import Console
from headrace_gateway.http.admission.supervision import UNSUPERVISED, Supervision
from headrace_gateway.http.application import Application, early_refusal
from headrace_gateway.http.call import HttpServices
from headrace_gateway.http.config import HttpConfig, TlsConfig
from headrace_gateway.http.idempotency import IdempotencyKeys
from headrace_gateway.http.metrics import Metrics
from headrace_gateway.http.sessions.members import Members
from headrace_gateway.http.sessions.waits import Waits
from headrace_gateway.http.turns import Turns
from headrace_gateway.json_api.errors import Rejected
from headrace_gateway.observability.cluster_state import ReadClusterState
from headrace_gateway.observability.group_lags import GroupLags
from headrace_gateway.observability.recent_logs import RecentLogs
from headrace_gateway.observability.statistics_history import StatisticsHistory
from headrace_gateway.ports import GroupPath, wall_clock_micros
from headrace_gateway.push.config import PushConfig
from headrace_gateway.push.server import Push
from headrace_node.connections.sessions import Sessions
from headrace_node.tracing import Tracing
from headrace_settings import Address, ShownSetting

_log = logging.getLogger(__name__)

_BACKLOG = 1024


def bind(address: Address) -> socket.socket:
    """Bind the address, so that it is known before the server starts.

    Raises:
        ListenError: The address is in use.
    """
    try:
        return socket.create_server(
            (str(address.ip), address.port),
            family=socket.AF_INET6 if address.ip.version == 6 else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except OSError as error:
        raise ListenError(f"http.address = {address}: {error}") from error


@asynccontextmanager
async def serving(
    config: HttpConfig,
    push_config: PushConfig,
    listener: socket.socket,
    *,
    certificates: Certificates | None,
    sessions: Sessions,
    logins: Logins,
    tokens: Tokens,
    logs: RecentLogs,
    settings: Callable[[], Sequence[ShownSetting]],
    cluster: ReadClusterState,
    member_ids: Callable[[int], Mapping[GroupPath, int]],
    collectors: Sequence[Collector] = (),
    named: Sequence[Collector] = (),
    tracing: Tracing | None = None,
    supervision: Supervision = UNSUPERVISED,
    proxies: Proxies = NONE,
) -> AsyncIterator[Application]:
    """Serve for the duration of an ``async with`` block.

    Args:
        config: Settings.
        push_config: Settings of the push to browsers.
        listener: A bound and listening socket.
        certificates: Server certificates; None: no TLS.
        sessions: Sessions with the node.
        logins: Checks passwords.
        tokens: Issues and checks login tokens.
        logs: Recent log records.
        settings: Lists the effective settings of the whole server.
        cluster: Returns the state of the cluster.
        member_ids: Returns the ids of a connection as a member of consumer groups.
        collectors: Metrics of other parts of the process.
        named: Metrics with names, only for those who may read the server.
        tracing: Creates spans of requests, if enabled.
        supervision: Access for supervisors that are not users.
        proxies: Trusted proxies, which forward the address of their clients.

    Raises:
        CertificateError: A certificate is invalid.
    """
    try:
        context = _tls_context(config.tls, certificates) if certificates is not None else None
    except (OSError, ValueError) as error:
        raise CertificateError(str(error)) from error
    groups = config.consumer_group
    members = Members(
        sessions,
        timeout_seconds=groups.member_timeout.seconds,
        count_max=groups.max_members,
        now=time.monotonic,
    )
    lags = GroupLags(
        sessions,
        partitions_max=config.metrics.lag_partitions,
        interval_seconds=config.metrics.lag_interval.seconds,
        clock=wall_clock_micros,
        now=time.monotonic,
    )
    history = StatisticsHistory(sessions, wall_clock_micros)
    waits = Waits(sessions, count_max=config.max_waits)
    metrics = Metrics(sessions, lags, collectors, named)
    push = Push(push_config, sessions=sessions, tokens=tokens, logins=logins, clock=wall_clock_micros)
    metrics.register(push.metrics)
    if logins.audit is not None:
        metrics.register(TrailCollector(logins.audit))
    connectors = ConnectorsClient(config.connectors)
    application = Application(
        HttpServices(
            config=config,
            sessions=sessions,
            logins=logins,
            tokens=tokens,
            members=members,
            idempotency=IdempotencyKeys(
                count_max=config.idempotency.max_keys,
                ttl_seconds=config.idempotency.ttl.seconds,
                now=time.monotonic,
            ),
            metrics=metrics,
            waits=waits,
            turns=Turns(),
            clock=wall_clock_micros,
            console=Console.load() if config.console.enabled else Console.absent(),
            logs=logs,
            settings=settings,
            history=history,
            cluster=cluster,
            member_ids=member_ids,
            connectors=connectors,
            tracing=tracing,
            supervision=supervision,
            proxies=proxies,
        ),
        push if push_config.enabled else None,
    )
    server = application.build()
    runner = web.AppRunner(
        server,
        handle_signals=False,
        shutdown_timeout=config.shutdown_timeout.seconds,
    )
    async with AsyncExitStack() as stack:
        stack.callback(members.close)
        # End waiting requests before the runner drains requests in flight.
        server.on_shutdown.append(_ended(waits, push))
        await stack.enter_async_context(connectors.connected())
        await stack.enter_async_context(push.running())
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await stack.enter_async_context(_accepting(config, application, runner, listener, context))
        await stack.enter_async_context(_background(members.run()))
        await stack.enter_async_context(_background(history.run()))
        yield application


@asynccontextmanager
async def _accepting(
    config: HttpConfig,
    application: Application,
    runner: web.AppRunner,
    listener: socket.socket,
    context: ssl.SSLContext | None,
) -> AsyncIterator[None]:
    # The server exists after the setup of the runner.
    served = cast("web.Server", runner.server)
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {
        "access_log": None,
        "logger": _library_log(),
        "keepalive_timeout": config.idle_timeout.seconds,
    }

    def library() -> asyncio.Protocol:
        return _RequestHandler(served, loop=loop, **options)

    count_max = connections_max(config.max_connections, "http.max_connections")
    connections = Connections(
        library,
        count_max=count_max,
        first_request_seconds=config.first_request_timeout.seconds,
        limit="http.max_connections",
    )
    application.on_request = lambda request: connections.has_asked(request.transport)
    application.on_login = lambda request, user: connections.has_logged_in(request.transport, user)
    server = await loop.create_server(
        connections,
        sock=listener,
        ssl=context,
        # As many are accepted at once as may wait. Where files are short, that must not be all of them.
        backlog=_BACKLOG if count_max == config.max_connections else min(_BACKLOG, 4 * count_max),
        ssl_handshake_timeout=config.first_request_timeout.seconds if context is not None else None,
    )
    try:
        yield
    finally:
        # Open connections are closed by the runner.
        server.close()


class _RequestHandler(web.RequestHandler):
    """Serves one connection. Malformed HTTP is refused in the common error format."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make senders wait until the operating system has everything: what is in buffers is not counted."""
        super().connection_made(transport)
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=0)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Log it, refuse the request and close the connection."""
        super().handle_error(request, status, exc, message)
        if status < 500:
            found = (message or "").strip().partition("\n")[0].rstrip(":")
            error: Exception = Rejected(status, f"This is not HTTP/1.1: {found}." if found else "This is not HTTP/1.1.")
        else:
            error = exc if isinstance(exc, Exception) else RuntimeError()
        response = early_refusal(error)
        response.force_close()
        response.headers[hdrs.SERVER] = "headrace"
        return response


class _NoTraceOfMalformedRequests(logging.Filter):
    """Logs malformed requests as one line without a stack trace, because they are the client's fault."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        _log.info("%s: %s", record.getMessage(), error.message.partition("\n")[0])
        return False


def _library_log() -> logging.Logger:
    log = logging.getLogger(f"{__name__}.library")
    if not log.filters:
        log.addFilter(_NoTraceOfMalformedRequests())
    return log


def _ended(waits: Waits, push: Push) -> Callable[[web.Application], Awaitable[None]]:
    async def end(application: web.Application) -> None:  # noqa: ARG001 - there is only one
        waits.close()
        push.close()

    return end


def _tls_context(config: TlsConfig, certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    certificates.show_in(context)
    if config.client_ca_file is not None:
        context.load_verify_locations(config.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, NoReturn]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
