"""Servers and sessions of a client, made from its address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from headrace.sdk.address import Address
from headrace.sdk.errors import InvalidArgument
from headrace.sdk.options import ClientOptions
from headrace.sdk.telemetry import Hooks
from headrace_core import SessionConfig

_LOG: Final = logging.getLogger("headrace")


def opened_servers(address: Address, cleanup: ExitStack) -> Address:
    """Start the embedded server that an address asks for; it stops with `cleanup`."""
    if address.embedded is None:
        return address
    # The server's modules take a second to import, and most clients need none of them.
    from headrace.embedded.thread import Server  # noqa: PLC0415

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
            _LOG.error("the connection has ended: %s", reason)
