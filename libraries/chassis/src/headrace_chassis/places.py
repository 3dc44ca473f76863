"""Places of clients, as limits count them."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import unquote

_IPV6_PREFIX: Final = 64


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
    parsed = _parsed(host)
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback:
        return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
    return host if parsed is None else str(parsed)


def plain(host: str) -> str:
    """Return the one form of the address of a host: without scope, and that of IPv4 for one that is mapped to IPv6."""
    parsed = _parsed(host)
    return host if parsed is None else str(parsed)


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def address_of(peer: str) -> tuple[str, int]:
    """Return address and port of a peer in gRPC notation; port 0 if there is none."""
    _, _, address = peer.partition(":")
    host, _, port = unquote(address).rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0
