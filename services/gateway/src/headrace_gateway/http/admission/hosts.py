"""Host names accepted in requests.

A page may resolve its own host name to the address of this machine, and then send requests as if it were of this
server's origin ("DNS rebinding"). The page cannot choose the header `Host` that the browser sends.
"""

from __future__ import annotations

import ipaddress

_ITSELF = "localhost"


class Hosts:
    """Accepts addresses, `localhost` and the listed names. Beyond loopback, an empty list accepts any name."""

    def __init__(self, allowed: tuple[str, ...], *, is_loopback: bool) -> None:
        """Set the allowed names.

        Args:
            allowed: Names in lower case; `*` first in the list allows any.
            is_loopback: True if only programs of this machine reach the server.
        """
        self._any = allowed[:1] == ("*",) or (not allowed and not is_loopback)
        self._allowed = frozenset(allowed)

    def allow(self, host: str | None) -> bool:
        """Return whether a request with this header `Host` is accepted. Browsers always send one."""
        if host is None or self._any:
            return True
        name = _name_of(host).lower().removesuffix(".")
        return name == _ITSELF or name.endswith(f".{_ITSELF}") or name in self._allowed or _is_address(name)


def _name_of(host: str) -> str:
    """Return the host without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
