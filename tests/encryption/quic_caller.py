"""The binary protocol over QUIC with aioquic, a client and a TLS that have nothing in common with the server's."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived, StreamReset
from cryptography.x509 import Certificate

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import Reply
from tests.server_process import PASSWORD, USERNAME

TIMEOUT_SECONDS = 120.0


class QuicStream:
    """One stream of a connection, opened by its first bytes."""

    def __init__(self, caller: QuicCaller, number: int) -> None:
        self._caller = caller
        self._number = number
        self.received = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Send more, and perhaps the end."""
        self._caller._quic.send_stream_data(self._number, data, end_stream=end)
        self._caller.transmit()

    def give_up(self, *, sending: bool) -> None:
        """Reset the sending side, or stop the receiving side."""
        give_up = self._caller._quic.reset_stream if sending else self._caller._quic.stop_stream
        give_up(self._number, 7)
        self._caller.transmit()

    async def answer(self) -> bytes:
        """Read everything until the end of the stream.

        Raises:
            ConnectionResetError: The server has reset the stream.
            ConnectionError: The connection ended.
        """
        await asyncio.wait_for(self.ended, TIMEOUT_SECONDS)
        return bytes(self.received)


class QuicCaller(QuicConnectionProtocol):
    """One connection; each request has a stream of its own."""

    terminated: ConnectionTerminated | None = None
    """Reason for the end of the connection, if it has ended."""

    def __init__(self, quic: QuicConnection) -> None:
        super().__init__(quic)
        self._streams: dict[int, QuicStream] = {}
        self._has_vanished = False

    def transmit(self) -> None:
        # The library's timers go on after a client has vanished.
        if not self._has_vanished:
            super().transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            stream = self._streams[event.stream_id]
            stream.received += event.data
            if event.end_stream:
                self._end(stream, None)
        elif isinstance(event, StreamReset):
            self._end(self._streams[event.stream_id], ConnectionResetError(event.error_code))
        elif isinstance(event, ConnectionTerminated):
            self.terminated = event
            for stream in self._streams.values():
                self._end(stream, ConnectionError(event.reason_phrase))

    @staticmethod
    def _end(stream: QuicStream, error: Exception | None) -> None:
        if stream.ended.done():
            return
        if error is None:
            stream.ended.set_result(None)
        else:
            stream.ended.set_exception(error)
            # Mark the exception as retrieved even if no task awaits it.
            stream.ended.exception()

    def stream(self) -> QuicStream:
        """One more stream."""
        number = self._quic.get_next_available_stream_id()
        # A stream is allocated only with its first bytes.
        self._quic.send_stream_data(number, b"")
        return self._streams.setdefault(number, QuicStream(self, number))

    @property
    def local_address(self) -> str:
        """`ip:port` of this end."""
        transport = cast("asyncio.DatagramTransport", self._transport)
        host, port = transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    @property
    def shown_certificate(self) -> Certificate:
        """Certificate of the server."""
        certificate = self._quic.tls._peer_certificate
        assert certificate is not None
        return certificate

    async def exchange(self, sent: bytes, *, end: bool = True) -> bytes:
        """Everything that a new stream brings back for these bytes."""
        stream = self.stream()
        stream.send(sent, end=end)
        return await stream.answer()

    async def request(self, code: int, payload: bytes = b"") -> Reply:
        """Send a request and wait for its response."""
        answer = await self.exchange(frames.request(code, payload))
        status, length = struct.unpack_from("<II", answer)
        assert len(answer) == 8 + length
        return Reply(status, answer[8:])

    async def ok(self, code: int, payload: bytes = b"") -> bytes:
        """The payload of the response to a request that has to succeed."""
        reply = await self.request(code, payload)
        assert reply.status == Status.OK, f"{Code(code).name}: status {reply.status}"
        return reply.payload

    async def log_in(self) -> None:
        """Log in as root."""
        await self.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))

    def vanish(self) -> None:
        """Stop responding without closing the connection."""
        self._has_vanished = True
        cast("asyncio.DatagramTransport", self._transport).abort()


def configuration(*, authority_file: Path | None = None, alpn: list[str] | None = None) -> QuicConfiguration:
    """A client that verifies against an authority, or does not."""
    wanted = QuicConfiguration(is_client=True, server_name="localhost", alpn_protocols=alpn, idle_timeout=30.0)
    if authority_file is None:
        wanted.verify_mode = ssl.CERT_NONE
    else:
        wanted.load_verify_locations(str(authority_file))
    return wanted


@asynccontextmanager
async def calling(address: str, wanted: QuicConfiguration | None = None) -> AsyncIterator[QuicCaller]:
    """A connection to this address.

    Raises:
        ConnectionError: The handshake did not succeed.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=wanted or configuration())
    transport, protocol = await loop.create_datagram_endpoint(lambda: QuicCaller(quic), local_addr=(host, 0))
    try:
        protocol.connect((host, int(port)))
        await asyncio.wait_for(protocol.wait_connected(), TIMEOUT_SECONDS)
        yield protocol
    finally:
        protocol.close()
        if not transport.is_closing():
            await asyncio.wait_for(protocol.wait_closed(), TIMEOUT_SECONDS)
        transport.close()
