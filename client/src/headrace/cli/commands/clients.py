"""`headrace client list | disconnect`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.http_target import DEFAULT_URL, UrlOption, logged_in
from headrace.cli.target import PasswordOption, UsernameOption

app = typer.Typer(name="client", help="List and close client connections.", no_args_is_help=True)

_FIELDS = ("client_id", "user_id", "transport", "address", "consumer_groups_count")


@app.command("list")
def list_clients(
    url: UrlOption = DEFAULT_URL,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the client connections of a server, or of one gateway of a cluster."""
    with logged_in(url, username, password) as api:
        found = json.loads(api.ask("GET", "/clients"))
    if as_json:
        output.print_json(found)
        return
    rows = [["-" if client[field] is None else client[field] for field in _FIELDS] for client in found]
    output.print_table(("id", "user", "transport", "address", "groups"), rows)


@app.command()
def disconnect(
    client_id: Annotated[
        int, typer.Argument(min=1, max=2**32 - 1, help="Id of the client, as listed by `headrace client list`.")
    ],
    url: UrlOption = DEFAULT_URL,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Close the connection of a client, even during a request.

    The client may reconnect: to block a user, deactivate it.
    """
    with logged_in(url, username, password) as api:
        api.ask("DELETE", f"/clients/{client_id}")
