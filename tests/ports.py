"""Ports for servers that keep theirs when they are killed and started again."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from typing import Final

_FIRST: Final = 10_000
_SYSTEM_FIRST: Final = 32_768
"""From here on the system takes ports for connections: one that is free for a moment could be anybody's then."""
_WORKERS_MAX: Final = 8
_given: Final[deque[int]] = deque(maxlen=1000)
"""Nobody may listen there yet, or at present."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of this machine's loopback that nobody has, and that no other worker of this run of the tests takes."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS_MAX
    while True:
        # In each worker other ones; at random, as other runs may go on at the same time.
        port = random.randrange(_FIRST + worker, _SYSTEM_FIRST, _WORKERS_MAX)
        if port in _given:
            continue
        with socket.socket(type=kind) as probe:
            if kind is socket.SOCK_STREAM:
                # What is left of earlier connections does not count, nor does it for servers.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.append(port)
        return port
