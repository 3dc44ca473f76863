"""Names under which this server may be asked.

A page may give its own name the address of this machine, and then ask as if it were of this server's origin ("DNS
rebinding"). What it cannot choose is the name that the browser sends along.
"""

from __future__ import annotations

import ipaddress

_ITSELF = "localhost"


class Hosts:
    """Addresses, `localhost`, and the names that are listed. Beyond loopback any name, as long as none is listed."""

    def __init__(self, allowed: tuple[str, ...], *, is_loopback: bool) -> None:
        """Begin to judge.

        Args:
            allowed: Names, in small letters; `*` first in the list stands for any.
            is_loopback: Whether only programs of this machine reach the server.
        """
        self._any = allowed[:1] == ("*",) or (not allowed and not is_loopback)
        self._allowed = frozenset(allowed)

    def allow(self, host: str | None) -> bool:
        """Return whether a request with this header `Host` is answered. Browsers always send one."""
        if host is None or self._any:
            return True
        name = _name_of(host).lower().removesuffix(".")
        return name == _ITSELF or name.endswith(f".{_ITSELF}") or name in self._allowed or _is_address(name)


def _name_of(host: str) -> str:
    """Leave the port out."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
