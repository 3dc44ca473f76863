"""Places of connections at a gRPC port: who has not logged in makes room when nearly all are taken.

The library accepts connections itself, and neither names nor closes single ones. But its sockets are files of this
process, so the connections of a port can be listed and shut down, and the library finds that a peer has left. Listing
takes time, so it is done now and then, and often while places are short.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from headrace_chassis.open_files import connections_max
from headrace_chassis.places import address_of, place_of, plain
from headrace_settings import Address

_log = logging.getLogger(__name__)

_FILES: Final = "/proc/self/fd"
_PART: Final = 8
"""Part of all places that is kept free, and that one address keeps without a login while places are short."""
# Pause between two lists, and the part of one processor's time that listing takes at most.
_CALM: Final = (0.25, 0.02)
_WHILE_SHORT: Final = (0.01, 0.2)
_LOG_SECONDS: Final = 10.0

_Peer = tuple[str, int]


class Places:
    """Connections of one port, with the users of those that have logged in."""

    def __init__(self, count_max: int, limit: str) -> None:
        """Set the limit, which the library enforces, within the part of open files that is for listeners.

        Args:
            count_max: Maximum number of connections that the settings allow; one user keeps at most half of them.
            limit: Name of that setting, for the log.
        """
        self._count_max = connections_max(count_max, limit)
        self._limit = limit
        # User of each connection that has logged in, and when that was seen.
        self._users: dict[_Peer, tuple[Hashable, float]] = {}
        # Peers of the sockets of this process by inode, the oldest first; None: not a connection of this port.
        self._sockets: dict[int, _Peer | None] = {}
        self._displaced_count = 0
        self._logged_at = -_LOG_SECONDS

    @property
    def options(self) -> Sequence[tuple[str, int]]:
        """Options of the library."""
        return (("grpc.max_allowed_incoming_connections", self._count_max),)

    def has_logged_in(self, peer: str, user: Hashable) -> None:
        """Record a call of a user, so that the connection keeps its place, unless the user has half of all.

        Args:
            peer: Address of the connection, in the library's notation.
            user: The user.
        """
        address, port = address_of(peer)
        self._users[plain(address), port] = user, time.monotonic()

    @asynccontextmanager
    async def kept_free(self, address: Address) -> AsyncIterator[None]:
        """Keep places free at an address for the duration of an ``async with`` block."""
        watching = asyncio.create_task(self._watch(address.port), name="grpc-places")
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _watch(self, port: int) -> None:
        while True:
            try:
                is_short, seconds = await asyncio.to_thread(self._timed, port)
            except OSError as error:
                _log.warning("connections at port %d cannot be listed, so none makes room for others: %s", port, error)
                return
            pause_seconds, load_max = _WHILE_SHORT if is_short else _CALM
            await asyncio.sleep(max(pause_seconds, seconds / load_max))

    def _timed(self, port: int) -> tuple[bool, float]:
        """Make room; return whether places are short, and the processor time of this."""
        began_at = time.thread_time()
        is_short = self.make_room(port)
        return is_short, time.thread_time() - began_at

    def make_room(self, port: int) -> bool:
        """List the connections, and close some without a login if places are short; return whether they are.

        Connections that are in a list for the first time are taken for younger than those of the list before. Among
        themselves they have no order: their files do not say when they were opened.
        """
        listed_at = time.monotonic()
        files = _files_of(self._sockets, port)
        open_now = {inode: peer for inode, peer in self._sockets.items() if peer is not None}
        peers = set(open_now.values())
        for peer, (_, seen_at) in list(self._users.items()):
            if peer not in peers and seen_at < listed_at:
                self._users.pop(peer, None)
        if len(open_now) * _PART < self._count_max * (_PART - 1):
            return False
        kept: Counter[Hashable] = Counter()
        leaving: list[int] = []
        # The newest first: those that stay.
        for inode, peer in reversed(open_now.items()):
            user, _ = self._users.get(peer, (None, 0.0))
            if user is not None and kept["user", user] < max(1, self._count_max // 2):
                kept["user", user] += 1
                continue
            owner = "address", place_of(peer[0])
            kept[owner] += 1
            if kept[owner] > max(1, self._count_max // _PART):
                leaving.append(inode)
        for inode in leaving:
            _shut_down(files[inode], inode)
        self._log_full(len(leaving))
        return True

    def _log_full(self, count: int) -> None:
        self._displaced_count += count
        now = time.monotonic()
        if self._displaced_count and now - self._logged_at >= _LOG_SECONDS:
            _log.warning(
                "nearly all of %s = %d are taken: %d without a login were displaced",
                self._limit,
                self._count_max,
                self._displaced_count,
            )
            self._logged_at, self._displaced_count = now, 0


def _files_of(sockets: dict[int, _Peer | None], port: int) -> dict[int, int]:
    """Bring the sockets of this process up to date; return their files."""
    files: dict[int, int] = {}
    for name in os.listdir(_FILES):  # noqa: PTH208 - numbers, not paths
        with suppress(OSError):
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                files[status.st_ino] = int(name)
    for gone in sockets.keys() - files.keys():
        del sockets[gone]
    for inode, file in files.items():
        if inode not in sockets:
            with suppress(OSError):
                sockets[inode] = _peer_at(file, inode, port)
    return files


def _peer_at(file: int, inode: int, port: int) -> _Peer | None:
    """Return the peer of a connection, if it is one of this port.

    Raises:
        OSError: The file was closed meanwhile.
    """
    with _opened_again(file, inode) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
            return None
        if connection.getsockname()[1] != port:
            return None
        try:
            peer = connection.getpeername()
        except OSError:
            # The socket that listens.
            return None
        return plain(peer[0]), peer[1]


def _shut_down(file: int, inode: int) -> None:
    with suppress(OSError), _opened_again(file, inode) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _opened_again(file: int, inode: int) -> socket.socket:
    """Return another descriptor of a socket: the first may be closed, and its number be given to another, at any time.

    Raises:
        OSError: That has happened.
    """
    again = os.dup(file)
    if os.fstat(again).st_ino != inode:
        os.close(again)
        raise OSError("the socket was closed")
    return socket.socket(fileno=again)
