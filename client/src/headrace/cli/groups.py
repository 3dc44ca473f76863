"""`headrace group create | list | show | delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.cli.topics import StreamArgument, TopicArgument
from headrace.connection import identifier
from headrace_core import Client, ConsumerGroup, Topic

app = typer.Typer(
    name="group", help="Consumer groups: members that share the partitions of a topic.", no_args_is_help=True
)

GroupArgument = Annotated[str, typer.Argument(help="Name or id of the group.")]

_FIELDS = ("id", "name", "partitions_count", "members_count")


@app.command()
def create(
    stream: StreamArgument,
    topic: TopicArgument,
    name: Annotated[str, typer.Argument(help="Name, unique in the topic.")],
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Create a group."""
    with logged_in(server, username, password) as client:
        _print([client.create_group(identifier(stream), identifier(topic), name)], as_json=as_json)


@app.command("list")
def list_groups(
    stream: StreamArgument,
    topic: TopicArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """List the groups of a topic."""
    with logged_in(server, username, password) as client:
        _print(client.groups(identifier(stream), identifier(topic)), as_json=as_json)


@app.command()
def show(
    stream: StreamArgument,
    topic: TopicArgument,
    group: GroupArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show who owns which partition, and how far the group is. Needs the right to poll."""
    with logged_in(server, username, password) as client:
        found = client.group(identifier(stream), identifier(topic), identifier(group))
        read = client.topic(identifier(stream), identifier(topic))
        if found is None or read is None:
            raise typer.BadParameter(f"there is no group {group!r} in topic {topic!r} of stream {stream!r}")
        partitions = _partitions(client, identifier(stream), read, found)
    if as_json:
        members = [{"id": member.id, "partitions": member.partitions} for member in found.members]
        output.print_json(_fields(found) | {"members": members, "partitions": partitions})
        return
    _print([found], as_json=False)
    output.stdout().print()
    output.print_table(
        ("partition", "member", "stored offset", "last offset", "lag (messages)"),
        (["-" if value is None else value for value in partition.values()] for partition in partitions),
    )


@app.command()
def delete(
    stream: StreamArgument,
    topic: TopicArgument,
    group: GroupArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Delete a group with its stored offsets; its members get nothing any more."""
    with logged_in(server, username, password) as client:
        client.delete_group(identifier(stream), identifier(topic), identifier(group))


def _partitions(client: Client, stream: int | str, topic: Topic, group: ConsumerGroup) -> list[dict[str, int | None]]:
    """What there is to know about each partition of a group, in the order of the columns."""
    owners = {partition: member.id for member in group.members for partition in member.partitions}
    found: list[dict[str, int | None]] = []
    for partition in topic.partitions:
        stored = client.offset(stream, topic.id, partition.id, group=group.id)
        behind = partition.messages_count if stored is None else stored.current_offset - stored.stored_offset
        found.append(
            {
                "id": partition.id,
                "member": owners.get(partition.id),
                "stored_offset": None if stored is None else stored.stored_offset,
                # An empty partition has none.
                "last_offset": partition.current_offset if partition.messages_count else None,
                # What has expired is not waiting any more.
                "lag_messages": max(0, min(behind, partition.messages_count)),
            }
        )
    return found


def _fields(group: ConsumerGroup) -> dict[str, Any]:
    return {field: getattr(group, field) for field in _FIELDS}


def _print(groups: list[ConsumerGroup], *, as_json: bool) -> None:
    if as_json:
        output.print_json([_fields(group) for group in groups])
        return
    output.print_table(("id", "name", "partitions", "members"), (list(_fields(group).values()) for group in groups))
