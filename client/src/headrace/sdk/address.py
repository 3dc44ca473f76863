"""Addresses of servers, with credentials: URLs, or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.sdk.errors import InvalidArgument

DEFAULT_PORT: Final = 8090
DEFAULT_WEBSOCKET_PORT: Final = 8092
_SCHEMES: Final = ("headrace", "headrace+tls", "headrace+ws", "headrace+wss", "headrace+embedded", "tls")
_TLS_OPTIONS: Final = ("ca", "name", "verify")


@dataclass(frozen=True, slots=True)
class Address:
    """Servers and credentials, as a URL gives them."""

    servers: tuple[tuple[str, bool], ...] = ()
    """Address as the native module takes it, and whether it is that of a WebSocket listener."""
    embedded: Path | None = None
    """Data directory of a server that runs in this process; the empty path means a temporary one."""
    username: str | None = None
    password: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        """Omits the secrets."""
        where = (
            f"embedded {self.embedded}" if self.embedded is not None else ", ".join(name for name, _ in self.servers)
        )
        return f"Address({where}, username={self.username!r})"


def address_of(
    url: str | None,
    *,
    username: str | None = None,
    password: str | None = None,
    token: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Address:
    """Return the address that a URL and arguments give; what they leave open, the environment gives.

    Args:
        url: ``headrace://user:password@host:8090,other:8090``; ``headrace+tls://host?ca=FILE``, also with ``name=NAME``
            or, in place of ``ca``, ``verify=no``; ``headrace+ws://host:8092`` and ``headrace+wss://`` over WebSocket;
            ``headrace+embedded:///path`` for a server in this process, without a path with temporary data; or
            ``host:port``. None: the variable HEADRACE_SERVER, or 127.0.0.1:8090.
        username: Wins over the URL, which wins over HEADRACE_USERNAME.
        password: Likewise, HEADRACE_PASSWORD.
        token: A personal access token; likewise, HEADRACE_TOKEN.
        environment: Where variables are looked up.

    Raises:
        InvalidArgument: The URL cannot be understood, or credentials are missing or exclude each other.
    """
    found = _parsed(url if url is not None else environment.get("HEADRACE_SERVER", f"127.0.0.1:{DEFAULT_PORT}"))
    if token is not None and (username is not None or password is not None):
        raise InvalidArgument("token: it replaces username and password; give one or the other")
    if token is not None:
        return replace(found, token=token, username=None, password=None)
    username, password = username or found.username, password or found.password
    if username is None and password is None and environment.get("HEADRACE_TOKEN"):
        return replace(found, token=environment["HEADRACE_TOKEN"])
    if found.embedded is not None and username is None and password is None:
        return found
    username = username or environment.get("HEADRACE_USERNAME")
    password = password or environment.get("HEADRACE_PASSWORD")
    if username is None or password is None:
        missing = "username" if username is None else "password"
        raise InvalidArgument(
            f"{missing}: there is none; give it as an argument, in the URL (headrace://user:password@host:port), "
            f"or in the variable HEADRACE_{missing.upper()}"
        )
    return replace(found, username=username, password=password)


def _parsed(url: str) -> Address:
    if "://" not in url:
        return Address(servers=tuple(_server(host, "headrace", "") for host in url.split(",")))
    scheme, rest = url.split("://", 1)
    if scheme not in _SCHEMES:
        hint = "; HTTP is another interface" if scheme.startswith("http") else ""
        raise InvalidArgument(f"url: {scheme}:// is none of {', '.join(f'{known}://' for known in _SCHEMES)}{hint}")
    if scheme == "headrace+embedded":
        return _embedded(url)
    authority, _, tail = rest.partition("?")
    authority = authority.rstrip("/")
    if "/" in authority:
        raise InvalidArgument(f"url: /{authority.split('/', 1)[1]} is a path; only headrace+embedded:// has one")
    userinfo, at, hosts = authority.rpartition("@")
    username, colon, password = userinfo.partition(":")
    options = parse_qsl(tail, keep_blank_values=True)
    unknown = [name for name, _ in options if name not in _TLS_OPTIONS]
    if unknown:
        raise InvalidArgument(f"url: {unknown[0]!r} is none of the options {', '.join(_TLS_OPTIONS)}")
    if not hosts:
        raise InvalidArgument("url: there is no host in it")
    return Address(
        servers=tuple(_server(host, scheme, tail) for host in hosts.split(",")),
        username=unquote(username) if at and username else None,
        password=unquote(password) if colon else None,
    )


def _embedded(url: str) -> Address:
    parts = urlsplit(url)
    if parts.hostname is not None:
        raise InvalidArgument(
            f"url: {parts.hostname} is a host; the path of a data directory begins with a third slash"
        )
    return Address(
        embedded=Path(unquote(parts.path)),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def _server(host: str, scheme: str, options: str) -> tuple[str, bool]:
    host = host.strip()
    is_websocket = scheme in {"headrace+ws", "headrace+wss"}
    default = DEFAULT_WEBSOCKET_PORT if is_websocket else DEFAULT_PORT
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        host, port = f"{host}:{default}", str(default)
    elif ":" in name and not name.startswith("["):
        raise InvalidArgument(f"url: {host} is no host and port; an IPv6 address is written [::1]:{default}")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise InvalidArgument(f"url: {port!r} is no port; ports are numbers from 1 to 65535")
    if scheme in {"headrace+tls", "headrace+wss", "tls"}:
        if not any(option.startswith(("ca=", "verify=")) for option in options.split("&")):
            raise InvalidArgument(
                "url: TLS needs ?ca=FILE with the authority that has signed the server's certificate, or ?verify=no"
            )
        return f"tls://{host}?{options}", is_websocket
    return host, is_websocket
