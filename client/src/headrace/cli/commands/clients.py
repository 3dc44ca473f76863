"""`headrace client list | disconnect`."""

from __future__ import annotations

import click

from headrace.cli import output
from headrace.cli.documents import client_document
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, or_dash, with_form
from headrace.cli.parameters import COUNT
from headrace.cli.servers.target import Target
from headrace_core import (
    ServerError,
    decode_connections,
    encode_disconnect_client,
    encode_get_clients,
)


@family("client", "List and close client connections.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command("list")
@with_target
@with_form
def list_clients(target: Target, form: Form) -> None:
    """List the client connections of a server, or of one gateway of a cluster."""
    with target.connected() as client:
        found = decode_connections(client.request(*encode_get_clients()))
    output.show(
        form,
        [client_document(one) for one in found],
        lambda: output.print_table(
            ("id", "user", "transport", "address", "groups"),
            [(str(one.client_id), or_dash(one.user_id), one.transport, one.address, one.groups_count) for one in found],
        ),
    )


@app.command()
@click.argument("client_id", metavar="ID", type=COUNT)
@with_target
def disconnect(target: Target, client_id: int) -> None:
    """Close the connection of a client, even during a request. ID is from `headrace client list`.

    The client may reconnect: to block a user, deactivate it.
    """
    with target.connected() as client:
        try:
            client.request(*encode_disconnect_client(client_id=client_id))
        except ServerError as error:
            if error.name != "ClientNotFound":
                raise
            raise CommandError(
                f"there is no client {client_id}: `headrace client list` shows those there are"
            ) from error
    output.say(f"disconnected client {client_id}")
