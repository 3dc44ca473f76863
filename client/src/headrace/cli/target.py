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
        help="host:port of the binary protocol; through TLS tls://host:port?ca=FILE with the authority to trust "
        "(name=NAME: who it must be; verify=no in place of ca: anybody). At a partition node TICKET@host:port, better "
        "given in the environment, where the list of processes does not show it.",
    ),
]
UsernameOption = Annotated[str | None, typer.Option("--username", "-u", envvar="HEADRACE_USERNAME", help="Log in as.")]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="HEADRACE_PASSWORD",
        help="Its password; better given in the environment, where the list of processes does not show it.",
    ),
]

DEFAULT_SERVER = "127.0.0.1:8090"


def credentials(username: str | None, password: str | None) -> Credentials:
    """Return the credentials; on a terminal, ask for the password if only the user is given."""
    if username is None:
        raise typer.BadParameter("give --username, or set HEADRACE_USERNAME and HEADRACE_PASSWORD")
    if password is None:
        password = typer.prompt(f"Password of {username}", hide_input=True, err=True)
    return Credentials(username, password)


def logged_in(server: str, username: str | None, password: str | None) -> AbstractContextManager[Client]:
    """Return a logged-in connection to the server that the options name."""
    # Neither tickets nor addresses contain an @.
    ticket, _, address = server.rpartition("@")
    return connected(address, Ticket(ticket) if ticket else credentials(username, password))
