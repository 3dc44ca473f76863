"""The node's answers on a session, received from its socket.

A stream reader of asyncio copies every byte three times before the caller has it: from the received data into its
buffer, out of that, and once more to close the gap. Answers with messages are megabytes, so they are received directly
into their destination: memory of their own, or memory that the caller lends for this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

_HEADER: Final = Struct("<II")
# Smaller answers are received together with their neighbours.
_SMALL_BYTES: Final = 64 * 1024
# Number of bytes that were not taken at which reading pauses, so that the node has to wait.
_UNTAKEN_BYTES_MAX: Final = 1024 * 1024


class Answer(NamedTuple):
    """One response."""

    status: int
    payload: bytes | memoryview


class Answers(asyncio.BufferedProtocol):
    """One session's end of a socket: answers in their order, and back-pressure for writing."""

    def __init__(self) -> None:
        """Create the protocol without a connection."""
        self.lent: bytearray | None = None
        """Memory for the next large answer, if that fits. Must not be used otherwise until the answer has arrived."""
        self.admit: Callable[[int], None] | None = None
        """Called with the size of each large answer before memory is allocated for it. If it raises, the connection is
        closed, and the exception is that of ``take``.
        """
        self._transport: asyncio.Transport | None = None
        self._small = bytearray(_SMALL_BYTES)
        self._begin = self._end = 0
        self._status = 0
        self._large: memoryview | None = None
        self._filled = 0
        self._ready: deque[Answer] = deque()
        self._untaken_bytes = 0
        self._is_paused = False
        self._is_over = False
        self._error: Exception | None = None
        self._refused: Exception | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    @property
    def is_quiet(self) -> bool:
        """Return whether all received data was taken, and the connection is open."""
        return not (self._ready or self._large is not None or self._begin < self._end or self._is_over)

    async def take(self) -> Answer:
        """Wait for the next answer; only one caller may wait at a time.

        Raises:
            ConnectionError: The connection is closed.
            Exception: ``admit`` has raised it.
        """
        while not self._ready:
            if self._refused is not None:
                raise self._refused
            if self._is_over:
                raise ConnectionResetError("the connection is closed") from self._error
            self._reading = asyncio.get_running_loop().create_future()
            try:
                await self._reading
            finally:
                self._reading = None
        answer = self._ready.popleft()
        self._untaken_bytes -= len(answer.payload)
        if self._is_paused and self._untaken_bytes <= _UNTAKEN_BYTES_MAX and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return answer

    async def written(self) -> None:
        """Wait until there is room to write.

        Raises:
            ConnectionError: The connection is closed.
        """
        if self._transport is not None and self._transport.is_closing():
            # Let the event loop notice the end of the connection.
            await asyncio.sleep(0)
        if self._is_over:
            raise ConnectionResetError("the connection is closed") from self._error
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the transport; called by asyncio."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a stream socket has one
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection; called by asyncio."""
        self._is_over, self._error = True, exc
        self._transport = None
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Pause writing; called by asyncio."""
        self._writing = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Resume writing; called by asyncio."""
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        self._writing = None

    def eof_received(self) -> None:
        """Note the end of the received data; called by asyncio."""
        self._is_over = True
        self._wake()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own
        """Return the memory for the next received bytes."""
        if self._large is not None:
            return self._large[self._filled :]
        return memoryview(self._small)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Note that a number of bytes was received."""
        if self._large is not None:
            self._filled += nbytes
            if self._filled < len(self._large):
                return
            self._add(self._large)
            self._large = None
        else:
            self._end += nbytes
            self._part()
        if self._ready or self._refused is not None:
            self._wake()

    def _part(self) -> None:
        """Extract complete answers from the received bytes; the rest moves to the front."""
        while self._end - self._begin >= _HEADER.size:
            self._status, length = _HEADER.unpack_from(self._small, self._begin)
            begin = self._begin + _HEADER.size
            if length > _SMALL_BYTES - _HEADER.size:
                if not self._admits(length):
                    return
                self._filled = min(length, self._end - begin)
                self._large = self._memory(length)
                self._large[: self._filled] = memoryview(self._small)[begin : begin + self._filled]
                self._begin = begin + self._filled
                break
            if self._end - begin < length:
                break
            self._begin = begin + length
            self._add(bytes(memoryview(self._small)[begin : self._begin]))
        left = self._end - self._begin
        if self._begin:
            self._small[:left] = self._small[self._begin : self._end]
        self._begin, self._end = 0, left

    def _admits(self, length: int) -> bool:
        """Ask for memory for a large answer; without it the connection ends, as the answer cannot be skipped."""
        if self.admit is None:
            return True
        try:
            self.admit(length)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller of `take` gets it
            self._refused = error
            if self._transport is not None:
                self._transport.abort()
            return False
        return True

    def _memory(self, length: int) -> memoryview:
        lent, self.lent = self.lent, None
        if lent is None or len(lent) < length:
            # Rounded up, so that the memory can be lent again for a slightly larger answer.
            lent = bytearray(-(-length // _SMALL_BYTES) * _SMALL_BYTES)
        return memoryview(lent)[:length]

    def _add(self, payload: bytes | memoryview) -> None:
        self._ready.append(Answer(self._status, payload))
        self._untaken_bytes += len(payload)
        if self._untaken_bytes > _UNTAKEN_BYTES_MAX and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)
