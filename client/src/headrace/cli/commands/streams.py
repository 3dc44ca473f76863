"""`headrace stream create | list | delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.connection import identifier
from headrace_core import Stream

app = typer.Typer(name="stream", help="Manage streams, which are namespaces of topics.", no_args_is_help=True)

StreamArgument = Annotated[str, typer.Argument(help="Name or id of the stream.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the new stream, unique on the server.")],
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Create a stream."""
    with logged_in(server, username, password) as client:
        _print([client.create_stream(name)], as_json=as_json)


@app.command("list")
def list_streams(
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the streams."""
    with logged_in(server, username, password) as client:
        _print(client.streams(), as_json=as_json)


@app.command()
def delete(
    stream: StreamArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Delete a stream with all its topics and messages."""
    with logged_in(server, username, password) as client:
        client.delete_stream(identifier(stream))


def _print(streams: list[Stream], *, as_json: bool) -> None:
    if as_json:
        fields = ("id", "name", "created_at_micros", "topics_count", "size_bytes", "messages_count")
        output.print_json([{field: getattr(stream, field) for field in fields} for stream in streams])
        return
    output.print_table(
        ("id", "name", "topics", "messages", "size", "created"),
        (
            (
                stream.id,
                stream.name,
                stream.topics_count,
                stream.messages_count,
                output.size(stream.size_bytes),
                output.moment(stream.created_at_micros),
            )
            for stream in streams
        ),
    )
