"""Connections to a server: address, credentials and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from headrace_core import Client

TIMEOUT_SECONDS: Final = 20.0
"""Timeout for connecting and for each answer. Exceeds the time that a gateway waits for a partition node
(`links.unsent_timeout`, 15 s): the gateway's refusal names the cause, a client timeout does not.
"""


class Credentials(NamedTuple):
    """Username and password."""

    username: str
    password: str


class Ticket(NamedTuple):
    """Ticket for a partition node."""

    text: str


class Token(NamedTuple):
    """Personal access token."""

    text: str


@contextmanager
def connected(
    address: str, credentials: Credentials | Ticket | Token | None, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> Iterator[Client]:
    """Connect for the duration of a ``with`` block, logged in if credentials are given.

    Args:
        address: ``host:port`` of the binary protocol, or ``tls://host:port?ca=FILE``.
        credentials: None for the few commands that need no login.
        timeout_seconds: Timeout for connecting and for each answer.

    Raises:
        headrace_core.ServerError: The server refused.
        headrace_core.ConnectionLost: No server answered, or the connection was lost.
    """
    client = Client.connect(address, timeout_seconds)
    try:
        client.explain_refusals()
        match credentials:
            case Credentials():
                client.login(credentials.username, credentials.password)
            case Ticket():
                client.login_with_ticket(credentials.text)
            case Token():
                client.login_with_token(credentials.text)
        yield client
    finally:
        client.close()
