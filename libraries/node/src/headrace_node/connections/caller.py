"""Origin of a request that an interface of this process sends to the node on behalf of a user."""

from __future__ import annotations

import ipaddress
from contextvars import ContextVar
from typing import Final, NamedTuple

_IPV6_PREFIX: Final = 64

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


def place_of(address: str) -> str:
    """Return the part of an address that the limits count, so that a client cannot obtain more than one at will.

    Args:
        address: Address with or without port, of any family and in any form.
    """
    host = address
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    if parsed.is_loopback:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
