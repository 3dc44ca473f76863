"""Common options of all commands: server and credentials."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated

import typer

from headrace.connection import Credentials, Ticket, connected
from headrace_core import Client

ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        "-s",
        envvar="HEADRACE_SERVER",
        help="Address of the binary protocol: host:port, or tls://host:port?ca=FILE for TLS, where FILE contains the "
        "certificates of the authorities to trust. name=NAME sets the expected name in the certificate; verify=no in "
        "place of ca accepts any certificate. A partition node needs a ticket: TICKET@host:port. Prefer the "
        "environment variable for tickets, because other users can see command lines.",
    ),
]
UsernameOption = Annotated[
    str | None, typer.Option("--username", "-u", envvar="HEADRACE_USERNAME", help="User to log in as.")
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="HEADRACE_PASSWORD",
        help="Password of the user; without it, a terminal is asked. Prefer the environment variable, because other "
        "users can see command lines.",
    ),
]

DEFAULT_SERVER = "127.0.0.1:8090"


def credentials(username: str | None, password: str | None) -> Credentials:
    """Return the credentials; on a terminal, ask for the password if only the user is given."""
    if username is None:
        raise typer.BadParameter(
            "no user to log in as: give --username, or set HEADRACE_USERNAME and HEADRACE_PASSWORD"
        )
    if password is None:
        password = typer.prompt(f"Password of {username}", hide_input=True, err=True)
    return Credentials(username, password)


def logged_in(server: str, username: str | None, password: str | None) -> AbstractContextManager[Client]:
    """Return a logged-in connection to the server that the options name."""
    # Neither tickets nor addresses contain an @.
    ticket, _, address = server.rpartition("@")
    return connected(address, Ticket(ticket) if ticket else credentials(username, password))
