"""Small TCP proxies between the replicas, by which a test cuts the network where it likes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_READ_BYTES = 256 * 1024


class Link:
    """The way from one replica to another: a listener that hands everything on to the other's address, or nothing."""

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
        """Where the replica at this end connects to."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)

    def cut(self) -> None:
        """Break what is connected; new connections are closed at once."""
        self._open.clear()
        for writer in list(self._sockets):
            writer.transport.abort()

    def stall(self) -> None:
        """Hand nothing on, without a word: what is sent waits."""
        self._open.clear()

    def heal(self) -> None:
        """Hand everything on again, and what waited first."""
        self._open.set()

    async def close(self) -> None:
        """End."""
        assert self._server is not None
        self._closing = True
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()
        await self._server.wait_closed()
        # What was just being accepted still comes, and transports that were aborted are closed in a later turn.
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
        # The other direction ends with this one.
        raise ConnectionResetError
