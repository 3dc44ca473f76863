"""Connecting to a server: the address, who asks, and what can go wrong on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from headrace_core import Client

TIMEOUT_SECONDS: Final = 20.0
"""For connecting and for each answer. Longer than a gateway waits for a partition node (`links.patience`, 15 s): its
refusal says what is wrong, the end of a wait does not."""


class Credentials(NamedTuple):
    """Who asks."""

    username: str
    password: str


class Ticket(NamedTuple):
    """What may be done at a partition node."""

    text: str


@contextmanager
def connected(
    address: str, credentials: Credentials | Ticket | None, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> Iterator[Client]:
    """A connection for the length of a ``with`` block, logged in when credentials are given.

    Args:
        address: ``host:port`` of the classic binary protocol, or ``tls://host:port?ca=FILE``.
        credentials: None for the few commands that need no login.
        timeout_seconds: For connecting and for each answer.

    Raises:
        headrace_core.ServerError: The server refused.
        headrace_core.ConnectionLost: There is no server there, or it went away.
    """
    client = Client.connect(address, timeout_seconds)
    try:
        client.explain_refusals()
        match credentials:
            case Credentials():
                client.login(credentials.username, credentials.password)
            case Ticket():
                client.login_with_ticket(credentials.text)
        yield client
    finally:
        client.close()


def identifier(text: str) -> int | str:
    """The way all clients read identifiers: digits are an id, anything else is a name."""
    return int(text) if text.isascii() and text.isdecimal() else text
