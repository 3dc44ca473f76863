"""gRPC server of a service, with health and reflection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace_chassis.certificates import Certificates
from headrace_chassis.errors import ListenError
from headrace_chassis.grpc.places import Places
from headrace_chassis.starts import Starts
from headrace_settings import Address

PUBLIC_SERVICES: Final = (health.SERVICE_NAME, reflection.SERVICE_NAME)
"""Services of every server, beside its own."""
_GRACE_SECONDS: Final = 2.0
_library_log: Final = logging.getLogger("grpc._cython.cygrpc")
_STARTS_MAX: Final = 8
# The library takes a third of a millisecond to accept a call, and on a busy machine several times that.
_QUIET_SECONDS: Final = 0.002
_TURN_SECONDS_MAX: Final = 0.03


def starts_of_calls() -> Starts:
    """Return the turns in which calls of users start.

    Calls wait with the library until it has accepted those before them, of all users. So accepting goes before
    starting: a turn ends when no call has been accepted for a while. What one user has sent then waits for its turn,
    where the calls of others pass it.
    """
    return Starts(_STARTS_MAX, quiet_seconds=_QUIET_SECONDS, turn_seconds_max=_TURN_SECONDS_MAX)


class Served:
    """A running server."""

    def __init__(
        self,
        address: Address,
        server: aio.Server,
        healths: health.aio.HealthServicer,
        names: Sequence[str],
        certificates: Certificates | None,
    ) -> None:
        """Use `serving` instead."""
        self.address: Final = address
        """Address actually bound."""
        self._server = server
        self._healths = healths
        self._names = names
        self._certificates = certificates

    async def report(self, *, is_ready: bool) -> None:
        """Report the services as serving, or as not serving."""
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._healths.set(name, status)

    async def reload_certificates(self) -> None:
        """Check for a new certificate now; the result is logged."""
        if self._certificates is not None:
            await self._certificates.look()

    async def drain(self) -> None:
        """Report the services as not serving from now on. Calls are still answered."""
        await self._healths.enter_graceful_shutdown()

    async def stop(self) -> None:
        """Refuse further calls, and answer those in progress for a short time."""
        await self.drain()
        await self._server.stop(_GRACE_SECONDS)


@asynccontextmanager
async def serving(
    address: Address,
    add_services: Callable[[aio.Server], object],
    *,
    names: Sequence[str],
    certificates: Certificates | None = None,
    interceptors: Sequence[aio.ServerInterceptor] = (),
    options: Sequence[tuple[str, Any]] = (),
    calls_max: int | None = None,
    places: Places | None = None,
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block. The services are not ready until that is reported.

    Args:
        address: Address to listen on.
        add_services: Adds the services to the server.
        names: Full names of these services, for health and reflection.
        certificates: Server certificates; None: no TLS.
        interceptors: Intercept every call, those of health and reflection included.
        options: Options of the library.
        calls_max: Maximum number of calls in progress; None: unlimited.
        places: Places of connections; None: the library's own limit alone.

    Raises:
        ListenError: The address cannot be bound.
    """
    server = aio.server(
        interceptors=interceptors,
        # A second process on the same port would silently take half of the calls.
        options=(("grpc.so_reuseport", 0), *(places.options if places is not None else ()), *options),
        maximum_concurrent_rpcs=calls_max,
    )
    _library_log.addFilter(_is_about_more_than_a_disconnection)
    add_services(server)
    healths = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healths, server)
    reflection.enable_server_reflection((*names, *PUBLIC_SERVICES), server)
    bound = await asyncio.to_thread(_bind, server, address, certificates)
    served = Served(bound, server, healths, names, certificates)
    await served.report(is_ready=False)
    # The library's main loop fails, and writes a traceback to the log, if its start is cancelled half-way.
    started = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(started)
        async with places.kept_free(bound) if places is not None else nullcontext():
            yield served
    finally:
        await started
        await served.stop()


def _is_about_more_than_a_disconnection(record: logging.LogRecord) -> bool:
    # The library logs a traceback for each stream of a connection that ends during a write.
    return record.exc_info is None or not isinstance(record.exc_info[1], aio.InternalError)


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
