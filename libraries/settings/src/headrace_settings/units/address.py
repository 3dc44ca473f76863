"""Addresses of listeners."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from headrace_settings.units.quantity import Quantity

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<v4>[^:]*)):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address(Quantity):
    """An IP address and a port. Port 0 asks the system for a free one."""

    ALLOWED: ClassVar[str] = '"ip:port", an IPv6 address in brackets, port 0 for any free one'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("127.0.0.1:8090", "[::1]:8090", "0.0.0.0:0")

    ip: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``127.0.0.1:8090`` or ``[::1]:8090``.

        Names are not resolved: a listener binds to addresses.
        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not ip:port")
        port = int(match["port"])
        if port > 65535:
            raise ValueError(f"port {port} is above 65535")
        try:
            if match["v6"] is not None:
                return cls(ipaddress.IPv6Address(match["v6"]), port)
            return cls(ipaddress.IPv4Address(match["v4"]), port)
        except ValueError:
            host = match["v6"] if match["v6"] is not None else match["v4"]
            raise ValueError(f"{host!r} is not an IP address") from None

    def with_port(self, port: int) -> Self:
        """The same address with another port."""
        return replace(self, port=port)

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if self.ip.version == 6 else f"{self.ip}:{self.port}"
