"""`headrace stream create | list | show | rename | purge | delete`."""

from __future__ import annotations

import click

from headrace.cli import output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.documents import stream_document
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options.arguments import STREAM_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import NewName
from headrace.cli.servers.resolving import find_stream
from headrace.cli.servers.target import Target
from headrace_core import (
    ServerError,
    Stream,
    encode_purge_stream,
    encode_update_stream,
)


@family("stream", "Manage streams, which are namespaces of topics.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@click.argument("name", type=NewName("a stream"))
@with_target
@with_form
def create(target: Target, form: Form, name: str) -> None:
    """Create a stream. NAME is unique on the server."""
    with target.connected() as client:
        try:
            created = client.create_stream(name)
        except ServerError as error:
            raise _taken(error, name) from error
    output.show(form, stream_document(created), lambda: _print_table([created]))


@app.command("list")
@with_target
@with_form
def list_streams(target: Target, form: Form) -> None:
    """List the streams."""
    with target.connected() as client:
        streams = client.streams()
    output.show(form, [stream_document(stream) for stream in streams], lambda: _print_table(streams))


@app.command()
@STREAM_ARGUMENT
@with_target
@with_form
def show(target: Target, form: Form, stream: str) -> None:
    """Show a stream. STREAM is its name or id."""
    with target.connected() as client:
        found = find_stream(client, stream)
    output.show(form, stream_document(found), lambda: _print_table([found]))


@app.command()
@STREAM_ARGUMENT
@click.argument("name", type=NewName("a stream"))
@with_target
def rename(target: Target, stream: str, name: str) -> None:
    """Give a stream another NAME."""
    with target.connected() as client:
        found = find_stream(client, stream)
        try:
            client.request(*encode_update_stream(stream=found.id, name=name))
        except ServerError as error:
            raise _taken(error, name) from error
    output.say(f"stream {found.name!r} is now {name!r}")


@app.command()
@STREAM_ARGUMENT
@with_target
@with_yes
def purge(target: Target, stream: str, yes: bool) -> None:
    """Delete the messages of every topic of a stream; the topics stay."""
    with target.connected() as client:
        found = find_stream(client, stream)
        confirm(f"delete {counted(found.messages_count, 'message')} of stream {found.name!r}", yes=yes)
        client.request(*encode_purge_stream(stream=found.id))
    output.say(f"deleted {counted(found.messages_count, 'message')} of stream {found.name!r}")


@app.command()
@STREAM_ARGUMENT
@with_target
@with_yes
def delete(target: Target, stream: str, yes: bool) -> None:
    """Delete a stream with all its topics and messages."""
    with target.connected() as client:
        found = find_stream(client, stream)
        contents = f"{counted(found.topics_count, 'topic')} and {counted(found.messages_count, 'message')}"
        confirm(f"delete stream {found.name!r} with {contents}", yes=yes)
        client.delete_stream(found.id)
    output.say(f"deleted stream {found.name!r} with {contents}")


def _taken(error: ServerError, name: str) -> Exception:
    if error.name == "StreamNameAlreadyExists":
        return CommandError(f"there is a stream {name!r} already")
    return error


def _print_table(streams: list[Stream]) -> None:
    output.print_table(
        ("id", "name", "topics", "messages", "size", "created"),
        (
            (
                stream.id,
                stream.name,
                stream.topics_count,
                stream.messages_count,
                output.size(stream.size_bytes),
                output.date(stream.created_at_micros),
            )
            for stream in streams
        ),
    )
