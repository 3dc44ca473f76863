"""`headrace topic create | list | show | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.connection import identifier
from headrace_core import Client, Topic
from headrace_settings import Expiry, SizeLimit

app = typer.Typer(name="topic", help="Manage topics, which are partitioned logs of messages.", no_args_is_help=True)

StreamArgument = Annotated[str, typer.Argument(help="Name or id of the stream.")]
TopicArgument = Annotated[str, typer.Argument(help="Name or id of the topic.")]

_TOPIC_FIELDS = (
    "id",
    "name",
    "created_at_micros",
    "partitions_count",
    "message_expiry_micros",
    "max_size_bytes",
    "size_bytes",
    "messages_count",
)
# Value shown for a setting last updated to the server's default.
_DEFAULT = "server default"
_DESCRIPTION_FIELDS = ("first_offset", "next_deletion_at_micros", "node", "state")
_PARTITION_FIELDS = ("id", "created_at_micros", "segments_count", "current_offset", "size_bytes", "messages_count")


@app.command()
def create(
    stream: StreamArgument,
    name: Annotated[str, typer.Argument(help="Name of the new topic, unique in the stream.")],
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=0, max=1000, help="Number of partitions.")] = 1,
    message_expiry: Annotated[
        Expiry | None,
        typer.Option(
            parser=Expiry.parse,
            metavar="DURATION",
            help='Age at which messages are deleted, such as "7 days"; never keeps them. (default: set by the server)',
        ),
    ] = None,
    max_size: Annotated[
        SizeLimit | None,
        typer.Option(
            parser=SizeLimit.parse,
            metavar="SIZE",
            help='Size above which the oldest segments are deleted, such as "10 GiB". (default: set by the server)',
        ),
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Create a topic."""
    with logged_in(server, username, password) as client:
        topic = client.create_topic(
            identifier(stream),
            name,
            partitions,
            message_expiry.micros if message_expiry else 0,
            max_size.bytes if max_size else 0,
        )
    _print([topic], as_json=as_json)


@app.command("list")
def list_topics(
    stream: StreamArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the topics of a stream."""
    with logged_in(server, username, password) as client:
        topics = client.topics(identifier(stream))
        if not topics and not _is_there(client, identifier(stream)):
            raise typer.BadParameter(f"there is no stream {stream!r}, or this user may not see it")
    _print(topics, as_json=as_json)


@app.command()
def show(
    stream: StreamArgument,
    topic: TopicArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show a topic with its partitions."""
    with logged_in(server, username, password) as client:
        found = client.topic(identifier(stream), identifier(topic))
        if found is None:
            raise typer.BadParameter(f"there is no topic {topic!r} in stream {stream!r}")
        described = {one.id: one for one in client.describe_partitions(identifier(stream), identifier(topic))}
    # Partitions may be added or deleted between the two answers.
    found_in_both = [
        (partition, described[partition.id]) for partition in found.partitions if partition.id in described
    ]
    if as_json:
        partitions = [
            _fields(partition, _PARTITION_FIELDS) | _fields(description, _DESCRIPTION_FIELDS)
            for partition, description in found_in_both
        ]
        output.print_json(_fields(found, _TOPIC_FIELDS) | {"partitions": partitions})
        return
    _print([found], as_json=False)
    output.stdout().print()
    output.print_table(
        ("partition", "segments", "first offset", "last offset", "messages", "size", "next deletion", "node", "state"),
        (
            (
                partition.id,
                partition.segments_count,
                description.first_offset,
                partition.current_offset,
                partition.messages_count,
                output.size(partition.size_bytes),
                output.moment(description.next_deletion_at_micros) if description.next_deletion_at_micros else "",
                description.node,
                description.state,
            )
            for partition, description in found_in_both
        ),
    )


@app.command()
def delete(
    stream: StreamArgument,
    topic: TopicArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Delete a topic with all its messages."""
    with logged_in(server, username, password) as client:
        client.delete_topic(identifier(stream), identifier(topic))


def _is_there(client: Client, stream: int | str) -> bool:
    """Return whether the stream exists: for a missing stream, the server returns an empty list of topics."""
    return any(stream in {found.id, found.name} for found in client.streams())


def _fields(record: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _print(topics: list[Topic], *, as_json: bool) -> None:
    if as_json:
        output.print_json([_fields(topic, _TOPIC_FIELDS) for topic in topics])
        return
    output.print_table(
        ("id", "name", "partitions", "messages", "size", "limit", "expiry", "created"),
        (
            (
                topic.id,
                topic.name,
                topic.partitions_count,
                topic.messages_count,
                output.size(topic.size_bytes),
                output.size(topic.max_size_bytes) if topic.max_size_bytes else _DEFAULT,
                str(Expiry(topic.message_expiry_micros)) if topic.message_expiry_micros else _DEFAULT,
                output.moment(topic.created_at_micros),
            )
            for topic in topics
        ),
    )
