"""Who is at the other end, where an interface of this process asks the node in somebody's name."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple

INTERFACES: Final = ("", "http", "grpc", "push")
"""By their numbers in control requests; 0: none."""


class Caller(NamedTuple):
    """Where a request came from."""

    address: str
    """``ip:port``; the port is 0 where it is not known."""
    transport: str
    """``tcp``, ``quic``, ``websocket``, or one of `INTERFACES`."""

    @classmethod
    def at(cls, host: str, port: int, transport: str) -> Caller:
        """Return the caller at an address of either kind."""
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", transport)


CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""Of the request at hand."""
