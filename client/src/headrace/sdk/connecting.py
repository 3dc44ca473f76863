"""Servers and sessions of a client, made from its address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from headrace.sdk.address import Address
from headrace.sdk.errors import InvalidArgument
from headrace.sdk.options import ClientOptions
from headrace.sdk.telemetry import Hooks
from headrace_core import SessionConfig

_LOG: Final = logging.getLogger("headrace")
_NAMED: Final[set[str]] = set()
"""Hosts of other machines that a warning has named."""


def opened_servers(address: Address, cleanup: ExitStack) -> Address:
    """Start the embedded server that an address asks for; it stops with `cleanup`."""
    if address.embedded is None:
        return address
    # The server's modules take a second to import, and most clients need none of them.
    from headrace_embedded.thread import Server  # noqa: PLC0415

    settings = {}
    if address.username is not None and address.password is not None:
        settings = {"root.username": address.username, "root.password": address.password}
    is_temporary = str(address.embedded) in {"", "."}
    server = cleanup.enter_context(Server(None if is_temporary else address.embedded, settings))
    return replace(
        address, servers=((server.address, False),), username=server.username, password=server.password, embedded=None
    )


def session_config(address: Address, options: ClientOptions, hooks: Hooks | None = None) -> SessionConfig:
    """Return the settings of a client's sessions.

    Raises:
        InvalidArgument: An address or a time is invalid.
    """
    _warn_of_plain_text(address)
    try:
        return SessionConfig(
            list(address.servers),
            username=address.username,
            password=address.password,
            token=address.token,
            connect_timeout=options.connect_timeout,
            response_timeout=options.response_timeout,
            keepalive=options.keepalive,
            first_rounds=options.connect_attempts,
            observer=_observer(hooks),
        )
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(str(error)) from None


def _warn_of_plain_text(address: Address) -> None:
    """Log a warning, once for each host, if the password and the messages can be read on the way to it."""
    for server, _ in address.servers:
        host = server.rpartition(":")[0].strip("[]")
        if server.startswith("tls://") or host in _NAMED or _is_this_machine(host):
            continue
        _NAMED.add(host)
        _LOG.warning(
            "the connection to %s is not encrypted: its network can read the credentials and the messages; "
            "headrace+tls:// and headrace+wss:// are encrypted",
            host,
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() in {"localhost", "localhost."} or host.lower().endswith(".localhost")


def _observer(hooks: Hooks | None) -> Callable[[str, str], None]:
    if hooks is None:
        return _observe

    def observe(change: str, reason: str) -> None:
        _observe(change, reason)
        hooks.connection_changed(change, reason)

    return observe


def _observe(change: str, reason: str) -> None:
    match change:
        case "opened":
            _LOG.debug("connected")
        case "lost":
            _LOG.warning("the connection broke, and is made again: %s", reason)
        case _:
            # No error record: what waits for it, and every later call, raises the reason.
            _LOG.info("the connection has ended: %s", reason)
