"""Sending of answers: in pieces, each of which its reader has to take in time.

The library would give a whole body to the transport, which copies it, and wait for its reader without end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable
from typing import Final, Protocol

from aiohttp import web

_log = logging.getLogger(__name__)

PIECE_BYTES: Final = 128 * 1024
"""Size of a piece; only one at a time is copied into the buffer of the transport. The library waits for the client
after more than 64 KiB.
"""
PIECE_SECONDS: Final = 20.0
"""Time within which a piece has to be taken, after the one before it was."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Writer(Protocol):
    """Destination of the pieces of an answer, such as the answer itself."""

    def write(self, data: memoryview, /) -> Awaitable[None]:
        """Write a piece, and wait until the client has taken it."""


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Send the rest of an answer; a client that does not take it in time is disconnected."""
    try:
        writer = await response.prepare(request)
        body = response.body if isinstance(response, web.Response) else None
        if writer is not None and isinstance(body, bytes) and len(body) > PIECE_BYTES:
            await write(request, writer, body)
            # The library must not send it again.
            response.body = None  # type: ignore[attr-defined]
        async with asyncio.timeout(PIECE_SECONDS):
            await response.write_eof()
    except TimeoutError:
        disconnect(request)
    except ConnectionError:
        # The client has disconnected, which the library notices by itself.
        pass


async def write(request: web.Request, writer: Writer, data: bytes) -> None:
    """Write a part of an answer.

    Raises:
        ConnectionError: The client has disconnected, or was disconnected because it does not read.
    """
    view = memoryview(data)
    try:
        for begin in range(0, len(view), PIECE_BYTES):
            async with asyncio.timeout(PIECE_SECONDS):
                await writer.write(view[begin : begin + PIECE_BYTES])
    except TimeoutError:
        disconnect(request)
        raise ConnectionResetError("the client does not read") from None


def disconnect(request: web.Request) -> None:
    """Disconnect a client that does not read, and give back the memory of what was sent to it."""
    transport = request.transport
    if transport is None:
        return
    _log.info("%s does not read its answers: disconnected", request.remote)
    connection = transport.get_extra_info("socket")
    if connection is not None:
        # Otherwise the kernel keeps the unread data for minutes.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
