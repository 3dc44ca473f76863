"""Balancers in front of the gateway, and where what comes through them comes from."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator

from headrace_settings import Section

HEADER: Final = "X-Forwarded-For"
"""Where balancers of HTTP and gRPC say for whom they speak."""


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


class ProxyConfig(Section):
    """`proxy`: balancers in front of the gateway, which say where a connection comes from."""

    trusted: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    """Their addresses or networks, such as `[10.0.0.7, fd00::/64]`. From these, connections to `tcp` and `websocket`
    have to begin with a header of the PROXY protocol, version 2, and the last address in `X-Forwarded-For` that is none
    of these counts for HTTP and gRPC. From others, such a header is refused, or means nothing."""

    @property
    def networks(self) -> tuple[tuple[str, int], ...]:
        """Each with how many of its bits count."""
        parsed = map(ipaddress.ip_network, self.trusted)
        return tuple((str(network.network_address), network.prefixlen) for network in parsed)


class Proxies:
    """Those that are trusted."""

    def __init__(self, config: ProxyConfig) -> None:
        self._networks = tuple(map(ipaddress.ip_network, config.trusted))

    def source_of(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return where a request comes from, without a port.

        Args:
            peer: Whose connection it came by.
            forwarded: Every `X-Forwarded-For` of it, in their order.
        """
        if not self._networks:
            return peer
        source = peer
        names = ",".join(forwarded).split(",")
        # Each balancer adds at the end: what stands before the last stranger is that stranger's own word.
        while names and self._is_trusted(source):
            name = names.pop().strip()
            if _parsed(name) is None:
                break
            source = name
        return source

    def _is_trusted(self, host: str) -> bool:
        address = _parsed(host)
        return address is not None and any(address in network for network in self._networks)


def _parsed(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


NONE: Final = Proxies(ProxyConfig())
"""No balancer is trusted."""
