"""Ports for servers that keep their port across restarts and kills."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from typing import Final

_FIRST: Final = 10_000
_SYSTEM_FIRST: Final = 32_768
"""First port of the system's ephemeral range. A free port in this range may be taken by any outgoing connection."""
_WORKERS_MAX: Final = 8
_given: Final[deque[int]] = deque(maxlen=1000)
"""Ports handed out recently, on which a server may not listen yet or at present."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a free loopback port that no other xdist worker of this run takes."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS_MAX
    while True:
        # Ports are disjoint between workers, and random because other runs may be active.
        port = random.randrange(_FIRST + worker, _SYSTEM_FIRST, _WORKERS_MAX)
        if port in _given:
            continue
        with socket.socket(type=kind) as probe:
            if kind is socket.SOCK_STREAM:
                # Connections in TIME_WAIT do not matter here, nor to servers.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.append(port)
        return port
