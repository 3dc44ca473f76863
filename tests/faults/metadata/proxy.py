"""Small TCP proxies between the replicas, by which a test partitions the network."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_READ_BYTES = 256 * 1024


class Link:
    """One direction between two replicas: a listener that forwards to the other replica's address, or drops."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._closing = False
        self._open = asyncio.Event()
        self._open.set()
        self._sockets: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Return the port to which the replica at this end connects."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)

    def cut(self) -> None:
        """Reset established connections and close new ones at once."""
        self._open.clear()
        for writer in list(self._sockets):
            writer.transport.abort()

    def stall(self) -> None:
        """Stop forwarding without closing: sent data waits."""
        self._open.clear()

    def heal(self) -> None:
        """Resume forwarding, with waiting data first."""
        self._open.set()

    async def close(self) -> None:
        """Close the listener and all connections."""
        assert self._server is not None
        self._closing = True
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()
        await self._server.wait_closed()
        # Let pending accepts finish; aborted transports close in a later turn of the event loop.
        await asyncio.sleep(0.01)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closing:
            writer.transport.abort()
            return
        self._sockets.add(writer)
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._drop(writer))

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._sockets.discard(writer)
        writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open.is_set():
            return
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            return
        self._sockets.add(other_writer)
        try:
            with suppress(OSError):
                await asyncio.gather(self._pump(reader, other_writer), self._pump(other_reader, writer))
        finally:
            self._drop(other_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        # Close the other direction with this one.
        raise ConnectionResetError
