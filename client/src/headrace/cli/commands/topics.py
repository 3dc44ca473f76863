"""`headrace topic create | list | show | update | purge | delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from headrace.cli import output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.documents import (
    ListedTopicDocument,
    PartitionDocument,
    ShownTopicDocument,
    partition_document,
    topic_document,
)
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options import completing
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import EXPIRY, SIZE_LIMIT, NewName, WholeNumber
from headrace.cli.servers.resolving import find_stream, find_topic
from headrace.cli.servers.target import Target
from headrace_core import (
    Client,
    ServerError,
    Stream,
    Topic,
    encode_purge_topic,
    encode_update_topic,
)

if TYPE_CHECKING:
    from headrace_settings import Expiry, SizeLimit

_SEGMENT: Final = "1 GiB, or what the server sets as segment size"
# Value shown for a setting last updated to the server's default.
_DEFAULT: Final = "server default"


@family("topic", "Manage topics, which are partitioned logs of messages.")
def app() -> None:
    """Do nothing: the work is in the commands."""


def _with_retention(function: Callable[..., Any]) -> Callable[..., Any]:
    expiry = click.option(
        "--message-expiry",
        "--expiry",
        "message_expiry",
        type=EXPIRY,
        help='Age at which messages are deleted, such as "7 days"; never keeps them.',
    )
    size = click.option(
        "--max-size",
        type=SIZE_LIMIT,
        help='Size above which the oldest segments are deleted, such as "10 GiB", or unlimited.',
    )
    return expiry(size(function))


@app.command()
@STREAM_ARGUMENT
@click.argument("name", type=NewName("a topic"))
@click.option(
    "--partitions", "-p", type=WholeNumber(1, 1000), default=1, show_default=True, help="Number of partitions."
)
@_with_retention
@with_target
@with_form
def create(
    target: Target,
    form: Form,
    stream: str,
    name: str,
    partitions: int,
    message_expiry: Expiry | None,
    max_size: SizeLimit | None,
) -> None:
    """Create a topic. NAME is unique in the stream. Without options, retention is as the server sets it."""
    with target.connected() as client:
        parent = find_stream(client, stream)
        try:
            topic = client.create_topic(
                parent.id,
                name,
                partitions,
                message_expiry.micros if message_expiry else 0,
                max_size.bytes if max_size else 0,
            )
        except ServerError as error:
            raise _explained(error, parent.name, name, max_size) from error
    output.show(form, topic_document(topic), lambda: _print_table([topic]))


@app.command("list")
@click.argument("stream", metavar="[STREAM]", required=False, shell_complete=completing.streams)
@with_target
@with_form
def list_topics(target: Target, form: Form, stream: str | None) -> None:
    """List the topics of a stream, or of all streams."""
    with target.connected() as client:
        if stream is not None:
            topics = client.topics(find_stream(client, stream).id)
            output.show(form, [topic_document(topic) for topic in topics], lambda: _print_table(topics))
            return
        found = [(parent, topic) for parent in client.streams() for topic in client.topics(parent.id)]
    output.show(form, [_listed(parent, topic) for parent, topic in found], lambda: _print_with_streams(found))


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@with_target
@with_form
def show(target: Target, form: Form, stream: str, topic: str) -> None:
    """Show a topic with its partitions."""
    with target.connected() as client:
        found = _readable(client, stream, topic)
        described = {one.id: one for one in client.describe_partitions(*found[:2])}
    details = found[2]
    # Partitions may be added or deleted between the two answers.
    partitions = [
        partition_document(partition, described[partition.id])
        for partition in details.partitions
        if partition.id in described
    ]
    document: ShownTopicDocument = {**topic_document(details), "partitions": partitions}
    output.show(form, document, lambda: _print_with_partitions(details, partitions))


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.option("--name", type=NewName("a topic"), help="New name.")
@_with_retention
@with_target
@with_form
def update(
    target: Target,
    form: Form,
    stream: str,
    topic: str,
    name: str | None,
    message_expiry: Expiry | None,
    max_size: SizeLimit | None,
) -> None:
    """Change the name or the retention of a topic; what is not given stays as it is."""
    if name is None and message_expiry is None and max_size is None:
        raise click.UsageError("there is nothing to change: give --name, --message-expiry or --max-size")
    with target.connected() as client:
        stream_id, topic_id, before = _readable(client, stream, topic)
        command = encode_update_topic(
            stream=stream_id,
            topic=topic_id,
            name=name if name is not None else before.name,
            compression=before.compression,
            message_expiry_micros=message_expiry.micros if message_expiry else before.message_expiry_micros,
            max_size_bytes=max_size.bytes if max_size else before.max_size_bytes,
            replication_factor=before.replication_factor,
        )
        try:
            client.request(*command)
        except ServerError as error:
            raise _explained(error, stream, name or before.name, max_size) from error
        after = client.topic(stream_id, topic_id)
    if after is None:
        raise CommandError(f"topic {before.name!r} was changed, and has been deleted since")
    output.show(form, topic_document(after), lambda: _print_table([after]))


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@with_target
@with_yes
def purge(target: Target, stream: str, topic: str, yes: bool) -> None:
    """Delete all messages of a topic; the topic and its groups stay."""
    with target.connected() as client:
        found = find_topic(client, stream, topic)
        messages = counted(found.details.messages_count, "message") if found.details else "all messages"
        confirm(f"delete {messages} of topic {found.name}", yes=yes)
        client.request(*encode_purge_topic(stream=found.stream, topic=found.topic))
    output.say(f"deleted {messages} of topic {found.name}")


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@with_target
@with_yes
def delete(target: Target, stream: str, topic: str, yes: bool) -> None:
    """Delete a topic with all its messages and groups."""
    with target.connected() as client:
        found = find_topic(client, stream, topic)
        messages = counted(found.details.messages_count, "message") if found.details else "all messages"
        confirm(f"delete topic {found.name} with {messages}", yes=yes)
        client.delete_topic(found.stream, found.topic)
    output.say(f"deleted topic {found.name} with {messages}")


def _readable(client: Client, stream: str, topic: str) -> tuple[int | str, int | str, Topic]:
    found = find_topic(client, stream, topic)
    return found.stream, found.topic, found.readable()


def _explained(error: ServerError, stream: str, name: str, max_size: SizeLimit | None) -> Exception:
    match error.name:
        case "TopicNameAlreadyExists":
            return CommandError(f"there is a topic {name!r} in stream {stream!r} already")
        case "InvalidTopicSize":
            return CommandError(f"--max-size: {max_size} is less than one segment ({_SEGMENT}): give at least that")
        case _:
            return error


def _listed(stream: Stream, topic: Topic) -> ListedTopicDocument:
    return {**topic_document(topic), "stream_id": stream.id, "stream": stream.name}


def _row(topic: Topic) -> tuple[object, ...]:
    from headrace_settings import Expiry  # noqa: PLC0415 - slow to import

    return (
        topic.id,
        topic.name,
        topic.partitions_count,
        topic.messages_count,
        output.size(topic.size_bytes),
        output.size(topic.max_size_bytes) if topic.max_size_bytes else _DEFAULT,
        str(Expiry(topic.message_expiry_micros)) if topic.message_expiry_micros else _DEFAULT,
        output.date(topic.created_at_micros),
    )


_COLUMNS: Final = ("id", "name", "partitions", "messages", "size", "limit", "expiry", "created")


def _print_table(topics: list[Topic]) -> None:
    output.print_table(_COLUMNS, map(_row, topics))


def _print_with_streams(found: list[tuple[Stream, Topic]]) -> None:
    output.print_table(("stream", *_COLUMNS), ((stream.name, *_row(topic)) for stream, topic in found))


def _print_with_partitions(topic: Topic, partitions: list[PartitionDocument]) -> None:
    _print_table([topic])
    output.stdout().print()
    # An embedded server has none.
    node = ("node",) if any(partition["node"] for partition in partitions) else ()
    output.print_table(
        ("partition", "segments", "first offset", "last offset", "messages", "size", "next deletion", *node, "state"),
        (
            (
                partition["id"],
                partition["segments_count"],
                partition["first_offset"],
                output.or_dash(partition["last_offset"]),
                partition["messages_count"],
                output.size(partition["size_bytes"]),
                output.date(partition["next_deletion_at_micros"]) if partition["next_deletion_at_micros"] else "",
                *((partition["node"],) if node else ()),
                partition["state"],
            )
            for partition in partitions
        ),
    )
