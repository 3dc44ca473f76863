"""Export of the trail to a syslog server, as messages of RFC 5424.

The handler of the standard library is not used: it sends the older format, does not delimit messages on TCP, and
blocks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Self, cast
from urllib.parse import urlsplit

from headrace_chassis.background import background
from headrace_gateway.audit.events import SERIES, Event
from headrace_settings.units.quantity import Quantity

EXPORT: Final = "export"
"""Reason for events that were not exported: the server was not reachable for too long."""

_PORTS: Final = {"udp": 514, "tcp": 601, "tls": 6514}
# Facility 13, log audit; severities notice and warning.
_DONE, _FAILED = 13 * 8 + 5, 13 * 8 + 4
_WAITING_MAX: Final = 4096
_CONNECT_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0
_LAST_SECONDS: Final = 1.0
# Minimum interval between log lines about failures.
_LINE_SECONDS: Final = 60.0
_DATAGRAM_BYTES_MAX: Final = 60_000
_HOST_CHARACTERS_MAX: Final = 255

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyslogServer(Quantity):
    """Address of a syslog server."""

    ALLOWED: ClassVar[str] = "a URL of the scheme udp, tcp, tls (with host and port) or unix (with a path)"
    EXAMPLES: ClassVar[tuple[str, ...]] = ("udp://127.0.0.1:514", "tls://logs.example.org:6514", "unix:///dev/log")

    scheme: str
    host: str
    """Host, or the path of a socket."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``tcp://host:601`` or ``unix:///dev/log``. Without a port, it is the registered one."""
        parts = urlsplit(text)
        if parts.scheme == "unix" and parts.path and not parts.netloc:
            return cls("unix", parts.path, 0)
        if parts.scheme in _PORTS and parts.hostname and parts.path in {"", "/"} and parts.username is None:
            return cls(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])
        raise ValueError(f"{text!r} is not {cls.ALLOWED}")

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}"
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class Export:
    """Sends events to a syslog server, in the background: requests do not wait for it."""

    def __init__(self, server: SyslogServer, lost: Callable[[str, int, str], None]) -> None:
        """Describe the export.

        Args:
            server: Its address.
            lost: Called with a reason, a number of events and a text for events that are not sent.
        """
        self._server = server
        self._lost = lost
        # A queue for each series: a flood of one does not displace the events of others.
        self._waiting: dict[str, deque[bytes]] = {name: deque() for name in SERIES}
        self._came = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._host = socket.gethostname()[:_HOST_CHARACTERS_MAX] or "-"

    def offer(self, event: Event, line: bytes) -> None:
        """Queue an event with its line."""
        waiting = self._waiting[event.series]
        if len(waiting) >= _WAITING_MAX:
            self._lost(EXPORT, 1, f"{self._server} does not take them")
            return
        waiting.append(message(event, line, self._host))
        self._is_idle.clear()
        self._came.set()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Send queued events for the duration of an ``async with`` block, and the remaining ones within a second."""
        async with background(self._run(), "audit-export"):
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    while any(self._waiting.values()):
                        await self._is_idle.wait()
        if left := sum(map(len, self._waiting.values())):
            self._lost(EXPORT, left, f"{self._server} has not taken them before the stop")

    async def _run(self) -> None:
        """Send queued events until cancelled; connect again after a failure."""
        said_at = -_LINE_SECONDS
        while True:
            await self._came.wait()
            try:
                if self._server.scheme in {"tcp", "tls"}:
                    await self._send_stream()
                else:
                    await asyncio.to_thread(self._send_datagrams)
            except (OSError, UnicodeError) as error:
                if time.monotonic() - said_at >= _LINE_SECONDS:
                    _log.warning("the audit trail is not exported to %s at present: %s", self._server, error)
                    said_at = time.monotonic()
                await asyncio.sleep(_RETRY_SECONDS)
            if any(self._waiting.values()):
                self._came.set()
            else:
                self._is_idle.set()

    async def _send_stream(self) -> None:
        context = ssl.create_default_context() if self._server.scheme == "tls" else None
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(self._server.host, self._server.port, ssl=context)
        # A server of syslog sends nothing: the end of its side is the end of the connection.
        ended = asyncio.create_task(reader.read(1))
        try:
            while not ended.done():
                for waiting in self._with_events():
                    if ended.done():
                        break
                    # Octet counting (RFC 6587): a message may contain any character.
                    writer.write(b"%d %b" % (len(waiting[0]), waiting[0]))
                    async with asyncio.timeout(_CONNECT_SECONDS):
                        await writer.drain()
                    waiting.popleft()
                if not any(self._waiting.values()):
                    self._is_idle.set()
                came = asyncio.create_task(self._came.wait())
                try:
                    await asyncio.wait({came, ended}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    came.cancel()
        finally:
            ended.cancel()
            writer.close()

    def _send_datagrams(self) -> None:
        with self._datagram_socket() as sender:
            for waiting in self._with_events():
                sender.send(waiting[0][:_DATAGRAM_BYTES_MAX])
                waiting.popleft()

    @contextmanager
    def _datagram_socket(self) -> Iterator[socket.socket]:
        family, address = socket.AF_UNIX, cast("Any", self._server.host)
        if self._server.scheme == "udp":
            found = socket.getaddrinfo(self._server.host, self._server.port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_CONNECT_SECONDS)
            sender.connect(address)
            yield sender

    def _with_events(self) -> Iterator[deque[bytes]]:
        """Iterate over the queues while they have events, those of administrators' changes first."""
        self._came.clear()
        while found := next(filter(None, self._waiting.values()), None):
            yield found


def message(event: Event, line: bytes, host: str) -> bytes:
    """Return an event as a message of RFC 5424, whose text is the line of JSON."""
    priority = _DONE if event.result in {"ok", "begun"} else _FAILED
    at = datetime.fromtimestamp(event.at / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    head = f"<{priority}>1 {at} {host} headrace {os.getpid()} {event.event} - "
    return head.encode("ascii", "replace") + line.rstrip(b"\n")
