"""Trusted load balancers in front of the gateway, and the client addresses they forward."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator

from headrace_settings import Section

HEADER: Final = "X-Forwarded-For"
"""Header in which load balancers of HTTP and gRPC forward the client address."""
_CHARACTERS_MAX: Final = 64


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


class ProxyConfig(Section):
    """`proxy`: load balancers in front of the gateway, which forward the addresses of clients."""

    trusted: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    """Addresses or networks of trusted load balancers, such as `[10.0.0.7, fd00::/64]`. Connections from these to `tcp`
    and `websocket` must begin with a PROXY protocol header, version 2; for HTTP, and for gRPC with `proxy.grpc`, the
    client address is the last address in `X-Forwarded-For` that is not trusted. From other addresses, a PROXY header is
    refused and `X-Forwarded-For` is ignored.
    """
    grpc: bool = False
    """Accept `x-forwarded-for` of trusted load balancers for gRPC. Only for load balancers that append the address of
    the client to each gRPC call: one that forwards whole connections passes on what a client has sent, and clients
    could then choose their address. If false, gRPC clients have the address of the load balancer.
    """

    @property
    def networks(self) -> tuple[tuple[str, int], ...]:
        """Networks, each with its prefix length in bits."""
        parsed = map(ipaddress.ip_network, self.trusted)
        return tuple((str(network.network_address), network.prefixlen) for network in parsed)


class Proxies:
    """The trusted proxies."""

    def __init__(self, config: ProxyConfig) -> None:
        self._networks = tuple(map(ipaddress.ip_network, config.trusted))
        self._is_grpc_forwarded = config.grpc

    def source_of(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the source address of a request, without port.

        Args:
            peer: Address of the connection.
            forwarded: All `X-Forwarded-For` headers of the request in their order.
        """
        if not self._networks:
            return peer
        source = peer
        names = ",".join(forwarded).split(",")
        # Each proxy appends an address: entries before the last untrusted address were made up by that client.
        while names and self._is_trusted(source):
            name = names.pop().strip()
            if _parsed(name) is None:
                break
            source = name
        return source

    def source_of_call(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the source address of a gRPC call, without port; the metadata count only if proxies set them.

        Args:
            peer: Address of the connection.
            forwarded: All `x-forwarded-for` metadata of the call in their order.
        """
        return self.source_of(peer, forwarded if self._is_grpc_forwarded else ())

    def _is_trusted(self, host: str) -> bool:
        address = _parsed(host)
        return address is not None and any(address in network for network in self._networks)


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # The scope of an address may be any text, and it comes from a header: logs and the audit trail contain it.
    if not host.isascii() or len(host) > _CHARACTERS_MAX:
        return None
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


NONE: Final = Proxies(ProxyConfig())
"""No trusted proxies."""
