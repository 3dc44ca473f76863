"""The server that a command works on, and as whom: options, environment, context, defaults, in this order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import click

from headrace.cli.errors import CommandError
from headrace.cli.parameters import Address
from headrace.cli.servers.contexts import Contexts
from headrace.connection import Credentials, Ticket, Token, connected
from headrace_core import Client, ConnectionLost, CoreError, ServerError

DEFAULT_SERVER: Final = "127.0.0.1:8090"
_LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the credentials for it, as far as they were given."""

    server: str
    username: str | None = None
    password: str | None = None
    token: str | None = None
    _answers: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Password that the user has typed, so that a command with several connections asks once."""

    @property
    def address(self) -> str:
        """Address of the server, without a ticket."""
        # Neither tickets nor addresses contain an @.
        return self.server.rpartition("@")[2]

    def credentials(self) -> Credentials | Ticket | Token:
        """Return the credentials; on a terminal, ask for the password if only the user is given.

        Raises:
            CommandError: They are missing.
        """
        ticket = self.server.rpartition("@")[0]
        if ticket:
            return Ticket(ticket)
        if self.token is not None:
            return Token(self.token)
        if self.username is None:
            raise CommandError(
                "no user to log in as: set HEADRACE_USERNAME and HEADRACE_PASSWORD, or HEADRACE_TOKEN, "
                "or add a context (headrace context add --help)",
                status=2,
            )
        if self.password is not None:
            return Credentials(self.username, self.password)
        if not self._answers:
            self._answers.append(ask_password(self.username))
        return Credentials(self.username, self._answers[0])

    @contextmanager
    def connected(self) -> Iterator[Client]:
        """Connect and log in for the duration of a ``with`` block.

        Raises:
            CommandError: There is no server at the address, or it refuses the login.
        """
        credentials = self.credentials()
        with self._reached(credentials) as client:
            yield client

    @contextmanager
    def connected_without_login(self) -> Iterator[Client]:
        """Connect for the duration of a ``with`` block."""
        with self._reached(None) as client:
            yield client

    @contextmanager
    def _reached(self, credentials: Credentials | Ticket | Token | None) -> Iterator[Client]:
        connection = connected(self.address, credentials)
        try:
            client = connection.__enter__()
            if credentials is None:
                # Whatever accepts connections is not yet a server.
                client.ping()
        except CoreError as error:
            raise CommandError(self._explained(error, credentials)) from error
        try:
            yield client
        finally:
            connection.__exit__(None, None, None)

    def _explained(self, error: CoreError, credentials: Credentials | Ticket | Token | None) -> str:
        """Return why there is no logged-in connection, and what to do."""
        if isinstance(error, ServerError) and error.name != "Unknown":
            return _refused_login(error, credentials)
        text = str(error)
        if isinstance(error, ConnectionLost) and text.startswith("cannot connect"):
            return self._unreachable(text)
        from headrace.cli.servers.foreign import protocol_at  # noqa: PLC0415 - needed for a message alone

        foreign = protocol_at(self.address)
        if foreign is not None:
            return (
                f"{self.address} does not speak the binary protocol, but {foreign}; the usual port of the binary "
                f"protocol is {Address.DEFAULT_PORT}"
            )
        return f"{self.address}: {text}"

    def _unreachable(self, text: str) -> str:
        if "lookup address" in text or "not known" in text or "No address" in text:
            return f"the host name in {self.address} is not known: check the name"
        host = self.address.removeprefix("tls://").partition("?")[0].rpartition(":")[0]
        if "refused" in text:
            advice = (
                "is it running? `headrace up` starts one" if host in _LOOPBACK else "check the address and the port"
            )
            return f"no server listens at {self.address}: {advice}"
        return text


def ask_password(username: str, *, variable: str = "HEADRACE_PASSWORD", prompt: str = "Password") -> str:
    """Ask for a password on the terminal.

    Args:
        username: Whose password.
        variable: Environment variable that could have had it, for the message.
        prompt: The question.

    Raises:
        CommandError: There is no terminal.
    """
    if not sys.stdin.isatty():
        raise CommandError(
            f"no password for {username}: set {variable}, because there is no terminal to ask on", status=2
        )
    password: str = click.prompt(f"{prompt} of {username}", hide_input=True, err=True)
    return password


def target_of(
    server: str | None, context: str | None, username: str | None, password: str | None, token: str | None
) -> Target:
    """Return what the options and variables say, completed by the context, if one is in use.

    Raises:
        click.UsageError: They contradict each other.
        CommandError: The context does not exist.
    """
    if token is not None and username is not None:
        raise click.UsageError("--token and --username (or their variables) exclude each other: give one of them")
    contexts = Contexts.load()
    name = context if context is not None else contexts.current
    if name is not None:
        used = contexts.get(name)
        server = server if server is not None else used.server
        # A secret belongs to the user that it was stored with.
        if token is None and username in {None, used.username}:
            secret = contexts.secret_of(name) if password is None else password
            if used.has_token and password is None:
                token = secret
            else:
                username, password = used.username, secret
    return Target(server if server is not None else DEFAULT_SERVER, username, password, token)


def _refused_login(error: ServerError, credentials: Credentials | Ticket | Token | None) -> str:
    match error.name, credentials:
        # Names and passwords of a length that no user has are wrong ones, too.
        case (("InvalidCredentials" | "InvalidUsername" | "InvalidPassword"), Credentials(username=username)):
            return f"the server does not know user {username!r} with this password"
        case (("InvalidCredentials" | "ResourceNotFound" | "InvalidPersonalAccessToken"), Token()):
            return (
                "the server does not know this access token, or it has expired: create one with headrace token create"
            )
        case "TooManyLoginAttempts", _:
            return (
                "too many logins of this user or from this address have failed: wait before the next one, also with "
                "the right password (login.* of the server's settings say how long)"
            )
        case "UserInactive", Credentials(username=username):
            return f"user {username!r} is not active: headrace user activate {username}"
        case _:
            return f"the server refused the login: {error}"
