"""Origin of a request that an interface of this process sends to the node on behalf of a user."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple

INTERFACES: Final = ("", "http", "grpc", "push")
"""Interfaces by their numbers in control requests; 0: none."""


class Caller(NamedTuple):
    """Origin of a request."""

    address: str
    """Address as ``ip:port``; the port is 0 if it is not known."""
    transport: str
    """Transport: ``tcp``, ``quic``, ``websocket``, or one of `INTERFACES`."""

    @classmethod
    def at(cls, host: str, port: int, transport: str) -> Caller:
        """Return the caller at an IPv4 or IPv6 address."""
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", transport)


CALLER: Final[ContextVar[Caller | None]] = ContextVar("caller", default=None)
"""Caller of the current request."""
