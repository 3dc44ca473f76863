"""`headrace group create | list | show | lag | delete`."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.commands.topics import StreamArgument, TopicArgument
from headrace.cli.group_progress import lag_of, progress_of
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.connection import identifier
from headrace_core import ConsumerGroup

app = typer.Typer(
    name="group", help="Manage consumer groups, whose members share the partitions of a topic.", no_args_is_help=True
)

GroupArgument = Annotated[str, typer.Argument(help="Name or id of the consumer group.")]

_FIELDS = ("id", "name", "partitions_count", "members_count")


@app.command()
def create(
    stream: StreamArgument,
    topic: TopicArgument,
    name: Annotated[str, typer.Argument(help="Name of the new group, unique in the topic.")],
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Create a consumer group."""
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
    """List the consumer groups of a topic."""
    with logged_in(server, username, password) as client:
        groups = client.groups(identifier(stream), identifier(topic))
        if not groups and client.topic(identifier(stream), identifier(topic)) is None:
            raise typer.BadParameter(f"there is no topic {topic!r} in stream {stream!r}")
    _print(groups, as_json=as_json)


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
    """Show the member, stored offset and lag of each partition. Needs the permission to poll messages."""
    with logged_in(server, username, password) as client:
        found = client.group(identifier(stream), identifier(topic), identifier(group))
        read = client.topic(identifier(stream), identifier(topic))
        if found is None or read is None:
            raise typer.BadParameter(f"there is no group {group!r} in topic {topic!r} of stream {stream!r}")
        partitions = progress_of(client, identifier(stream), read, found)
    if as_json:
        members = [{"id": member.id, "partitions": member.partitions} for member in found.members]
        of_partitions = [
            {
                "id": it.partition_id,
                "member": it.member,
                "stored_offset": it.stored_offset,
                "last_offset": it.last_offset,
                "lag_messages": it.lag_messages,
            }
            for it in partitions
        ]
        output.print_json(_fields(found) | {"members": members, "partitions": of_partitions})
        return
    _print([found], as_json=False)
    output.stdout().print()
    output.print_table(
        ("partition", "member", "stored offset", "last offset", "lag (messages)"),
        [
            (
                it.partition_id,
                _known(it.member),
                _known(it.stored_offset),
                _known(it.last_offset),
                it.lag_messages,
            )
            for it in partitions
        ],
    )


@app.command()
def lag(
    stream: StreamArgument,
    topic: TopicArgument,
    group: GroupArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the lag of a group in messages, and in seconds by the age of its oldest unread message.

    The age is relative to the clock of this machine. Needs the permission to read the topic.
    """
    with logged_in(server, username, password) as client:
        found = client.group(identifier(stream), identifier(topic), identifier(group))
        read = client.topic(identifier(stream), identifier(topic))
        if found is None or read is None:
            raise typer.BadParameter(f"there is no group {group!r} in topic {topic!r} of stream {stream!r}")
        report = lag_of(client, identifier(stream), read, found, now_micros=time.time_ns() // 1000)
    if as_json:
        output.print_json(asdict(report))
        return
    output.print_table(
        ("partition", "member", "stored offset", "last offset", "lag (messages)", "lag (seconds)"),
        [
            [
                it.partition_id,
                _known(it.member),
                _known(it.stored_offset),
                _known(it.last_offset),
                it.lag_messages,
                _seconds(it.lag_seconds),
            ]
            for it in report.partitions
        ],
    )
    output.stdout().print()
    output.print_table(("lag (messages)", "lag (seconds)"), [(report.lag_messages, _seconds(report.lag_seconds))])


@app.command()
def delete(
    stream: StreamArgument,
    topic: TopicArgument,
    group: GroupArgument,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Delete a consumer group with its stored offsets; its members receive no more messages."""
    with logged_in(server, username, password) as client:
        client.delete_group(identifier(stream), identifier(topic), identifier(group))


def _known(value: int | None) -> int | str:
    return "-" if value is None else value


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _fields(group: ConsumerGroup) -> dict[str, Any]:
    return {field: getattr(group, field) for field in _FIELDS}


def _print(groups: list[ConsumerGroup], *, as_json: bool) -> None:
    if as_json:
        output.print_json([_fields(group) for group in groups])
        return
    output.print_table(("id", "name", "partitions", "members"), (list(_fields(group).values()) for group in groups))
