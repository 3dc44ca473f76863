"""Addresses of servers, with credentials: URLs, or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from headrace.sdk.errors import InvalidArgument

DEFAULT_PORT: Final = 8090
DEFAULT_WEBSOCKET_PORT: Final = 8092
_SCHEMES: Final = ("headrace", "headrace+tls", "headrace+ws", "headrace+wss", "headrace+embedded", "tls")
_TLS_SCHEMES: Final = frozenset({"headrace+tls", "headrace+wss", "tls"})
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

    @property
    def place(self) -> str:
        """Servers as text, without the secrets."""
        return f"embedded {self.embedded}" if self.embedded is not None else ", ".join(name for name, _ in self.servers)

    def __repr__(self) -> str:
        """Omits the secrets."""
        return f"Address({self.place}, username={self.username!r})"


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
    if url is None:
        url = environment.get("HEADRACE_SERVER") or f"127.0.0.1:{DEFAULT_PORT}"
    found = _parsed(url)
    if token is not None and (username is not None or password is not None):
        raise InvalidArgument("token: it replaces username and password; give one or the other")
    if token is not None and found.embedded is not None:
        raise InvalidArgument("token: an embedded server has none yet; give username and password, or neither")
    if token is not None:
        return replace(found, token=token, username=None, password=None)
    username, password = username or found.username, password or found.password
    if found.embedded is not None and username is None and password is None:
        return found
    if found.embedded is None and username is None and password is None and environment.get("HEADRACE_TOKEN"):
        return replace(found, token=environment["HEADRACE_TOKEN"])
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
    # Texts of errors are shown and logged: what may be a part of a password is not in them.
    if "://" not in url:
        if "@" in url:
            raise InvalidArgument("url: it has credentials and no scheme; write headrace://user:password@host:port")
        return Address(servers=_servers(url, "headrace", ""))
    scheme, rest = url.split("://", 1)
    if scheme not in _SCHEMES:
        hint = "; HTTP is another interface" if scheme.startswith("http") else ""
        known = ", ".join(f"{known}://" for known in _SCHEMES)
        given = f"{scheme}://" if scheme.isidentifier() else "its scheme"
        raise InvalidArgument(f"url: {given} is none of {known}{hint}")
    if scheme == "headrace+embedded":
        return _embedded(rest)
    authority, _, tail = rest.partition("?")
    authority = authority.rstrip("/")
    userinfo, at, hosts = authority.rpartition("@")
    if "@" in tail or "/" in userinfo:
        raise InvalidArgument("url: in username and password, / is written %2F, ? is written %3F and @ is written %40")
    if "/" in hosts:
        raise InvalidArgument(f"url: /{hosts.split('/', 1)[1]} is a path; only headrace+embedded:// has one")
    username, colon, password = userinfo.partition(":")
    return Address(
        servers=_servers(hosts, scheme, _options(scheme, tail)),
        username=unquote(username) if at and username else None,
        password=unquote(password) if colon else None,
    )


def _options(scheme: str, tail: str) -> str:
    """Check the options of a URL, and return them as the native module takes them."""
    given: dict[str, str] = {}
    for option in filter(None, tail.split("&")):
        name, _, value = option.partition("=")
        if name not in _TLS_OPTIONS:
            raise InvalidArgument(f"url: {name!r} is none of the options {', '.join(_TLS_OPTIONS)}")
        if name in given:
            raise InvalidArgument(f"url: the option {name!r} is given twice")
        given[name] = unquote(value)
        if not given[name] or "&" in given[name]:
            raise InvalidArgument(f"url: {given[name]!r} is no value of the option {name!r}")
    if scheme not in _TLS_SCHEMES:
        if given:
            raise InvalidArgument(
                f"url: {scheme}:// has no option {next(iter(given))!r}: it is not encrypted, as headrace+tls:// and "
                "headrace+wss:// are"
            )
        return ""
    if given.get("verify", "no") != "no":
        raise InvalidArgument(f"url: verify={given['verify']} is not known; verify=no accepts any certificate")
    if ("ca" in given) == ("verify" in given):
        raise InvalidArgument(
            "url: TLS needs ?ca=FILE with the authority that has signed the server's certificate, or ?verify=no"
        )
    return "&".join(f"{name}={value}" for name, value in given.items())


def _embedded(rest: str) -> Address:
    authority, slash, path = rest.partition("/")
    userinfo, _, host = authority.rpartition("@")
    username, colon, password = userinfo.partition(":")
    if host:
        raise InvalidArgument(
            "url: headrace+embedded:// has no host; the path of a data directory begins with a third slash"
        )
    if "?" in path or "#" in path:
        raise InvalidArgument(
            "url: headrace+embedded:// has no options; in a path, ? is written %3F and # is written %23"
        )
    return Address(
        embedded=Path(unquote(slash + path)),
        username=unquote(username) if username else None,
        password=unquote(password) if colon else None,
    )


def _servers(hosts: str, scheme: str, options: str) -> tuple[tuple[str, bool], ...]:
    if not hosts.strip():
        raise InvalidArgument("url: there is no host in it")
    return tuple(_server(host.strip(), scheme, options) for host in hosts.split(","))


def _server(host: str, scheme: str, options: str) -> tuple[str, bool]:
    is_websocket = scheme in {"headrace+ws", "headrace+wss"}
    default = DEFAULT_WEBSOCKET_PORT if is_websocket else DEFAULT_PORT
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(default)
    if not name or any(character.isspace() for character in name):
        raise InvalidArgument(f"url: {host!r} has no host; several addresses are written host:port,host:port")
    is_bracketed = name.startswith("[") and name.endswith("]")
    if (":" in name or "[" in name or "]" in name) and not is_bracketed:
        raise InvalidArgument(f"url: {host} is no host and port; an IPv6 address is written [::1]:{default}")
    if not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise InvalidArgument(f"url: {port!r} is no port; ports are numbers from 1 to 65535")
    if scheme in _TLS_SCHEMES:
        return f"tls://{name}:{port}?{options}", is_websocket
    return f"{name}:{port}", is_websocket
