"""`headrace group create | list | show | lag | reset | delete`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict

import click

from headrace.cli import group_reset, output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.documents import ListedGroupDocument, ResetDocument, ShownGroupDocument, group_document
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.group_progress import lag_of, progress_of
from headrace.cli.options import completing
from headrace.cli.options.arguments import GROUP_ARGUMENT, STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, or_dash, with_form
from headrace.cli.parameters import NewName, Partitions, Start, StartPosition
from headrace.cli.servers.resolving import TopicPath, find_group, find_stream, find_topic
from headrace.cli.servers.target import Target
from headrace_core import Client, ConsumerGroup, ServerError, Topic


@family("group", "Manage consumer groups, whose members share the partitions of a topic.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("name", type=NewName("a group"))
@with_target
@with_form
def create(target: Target, form: Form, stream: str, topic: str, name: str) -> None:
    """Create a consumer group. NAME is unique in the topic."""
    with target.connected() as client:
        path = find_topic(client, stream, topic)
        try:
            group = client.create_group(path.stream, path.topic, name)
        except ServerError as error:
            if error.name != "ConsumerGroupNameAlreadyExists":
                raise
            raise CommandError(f"there is a group {name!r} in {path.name} already") from error
    output.show(form, group_document(group), lambda: _print_table([group]))


@app.command("list")
@click.argument("stream", metavar="[STREAM]", required=False, shell_complete=completing.streams)
@click.argument("topic", metavar="[TOPIC]", required=False, shell_complete=completing.topics)
@with_target
@with_form
def list_groups(target: Target, form: Form, stream: str | None, topic: str | None) -> None:
    """List the consumer groups of a topic, of all topics of a stream, or of all streams, with their lag."""
    with target.connected() as client:
        found = [
            _listed(client, number, name, one, group)
            for number, name, one in _topics(client, stream, topic)
            for group in client.groups(number, one.id)
        ]
    output.show(form, found, lambda: _print_listed(found))


def _topics(client: Client, stream: str | None, topic: str | None) -> Iterator[tuple[int | str, str, Topic]]:
    """Yield number, or name, and name of the stream of each topic, and the topic."""
    if stream is not None and topic is not None:
        path = find_topic(client, stream, topic)
        found = path.readable()
        # A user who may read the topic need not be allowed to read its stream.
        yield path.stream, path.name.removesuffix(f"/{found.name}"), found
        return
    for parent in client.streams() if stream is None else [find_stream(client, stream)]:
        for one in client.topics(parent.id):
            yield parent.id, parent.name, one


def _listed(client: Client, number: int | str, stream: str, topic: Topic, group: ConsumerGroup) -> ListedGroupDocument:
    # A list of topics has no partitions.
    read = topic if topic.partitions else client.topic(number, topic.id)
    progress = [] if read is None else progress_of(client, number, read, group)
    return {
        **group_document(group),
        "stream": stream,
        "topic": topic.name,
        "lag_messages": sum(it.lag_messages or 0 for it in progress),
        "unreached_count": sum(it.lag_messages is None for it in progress),
    }


def _print_listed(found: list[ListedGroupDocument]) -> None:
    output.print_table(
        ("stream", "topic", "id", "name", "partitions", "members", "lag (messages)"),
        [
            (
                group["stream"],
                group["topic"],
                group["id"],
                group["name"],
                group["partitions_count"],
                group["members_count"],
                f"{group['lag_messages']}{' and those of nodes not reached' if group['unreached_count'] else ''}",
            )
            for group in found
        ],
    )


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@GROUP_ARGUMENT
@with_target
@with_form
def show(target: Target, form: Form, stream: str, topic: str, group: str) -> None:
    """Show the member, stored offset and lag of each partition. Needs the permission to poll messages."""
    with target.connected() as client:
        path, read, found = _found(client, stream, topic, group)
        progress = progress_of(client, path.stream, read, found)
    document: ShownGroupDocument = {
        **group_document(found),
        "members": [{"id": member.id, "partitions": member.partitions} for member in found.members],
        "partitions": [
            {
                "id": it.partition_id,
                "member": it.member,
                "stored_offset": it.stored_offset,
                "last_offset": it.last_offset,
                "lag_messages": it.lag_messages,
            }
            for it in progress
        ],
    }

    def print_for_users() -> None:
        _print_table([found])
        output.stdout().print()
        output.print_table(
            ("partition", "member", "stored offset", "last offset", "lag (messages)"),
            [
                (
                    it.partition_id,
                    or_dash(it.member),
                    or_dash(it.stored_offset),
                    or_dash(it.last_offset),
                    _messages(it.lag_messages),
                )
                for it in progress
            ],
        )

    output.show(form, document, print_for_users)


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@GROUP_ARGUMENT
@with_target
@with_form
def lag(target: Target, form: Form, stream: str, topic: str, group: str) -> None:
    """Show the lag of a group in messages, and in seconds by the age of its oldest unread message.

    The age is relative to the clock of this machine. Needs the permission to read the topic.
    """
    with target.connected() as client:
        path, read, found = _found(client, stream, topic, group)
        report = lag_of(client, path.stream, read, found, now_micros=time.time_ns() // 1000)

    def print_for_users() -> None:
        output.print_table(
            ("partition", "member", "stored offset", "last offset", "lag (messages)", "lag (seconds)"),
            [
                [
                    it.partition_id,
                    or_dash(it.member),
                    or_dash(it.stored_offset),
                    or_dash(it.last_offset),
                    _messages(it.lag_messages),
                    _seconds(it.lag_seconds),
                ]
                for it in report.partitions
            ],
        )
        output.stdout().print()
        output.print_table(("lag (messages)", "lag (seconds)"), [(report.lag_messages, _seconds(report.lag_seconds))])

    output.show(form, asdict(report), print_for_users)


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@GROUP_ARGUMENT
@click.option(
    "--to",
    type=StartPosition("first", "last"),
    required=True,
    help="Next message to read: first, last (only what is sent from now on), an offset, or a time (ISO 8601).",
)
@click.option("--partition", "-p", "partitions", type=Partitions(), help="Partitions, such as 0-3,7; otherwise all.")
@click.option("--dry-run", is_flag=True, help="Show the change, and change nothing.")
@with_target
@with_form
@with_yes
def reset(
    target: Target,
    form: Form,
    stream: str,
    topic: str,
    group: str,
    to: Start,
    partitions: tuple[int, ...] | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Have a group read on at another position. The group must have no members while its offsets move."""
    with target.connected() as client:
        path, read, found = _found(client, stream, topic, group)
        chosen = path.partitions(partitions)
        if found.members_count and not dry_run:
            raise CommandError(
                f"group {found.name!r} has {counted(found.members_count, 'member')}, which would go on where they are: "
                "stop them first"
            )
        moves = group_reset.planned(client, path, found, [one for one in read.partitions if one.id in chosen], to)
        document: list[ResetDocument] = [
            {"partition": move.partition, "old_offset": move.old_offset, "new_offset": move.new_offset}
            for move in moves
        ]
        output.show(
            form,
            document,
            lambda: output.print_table(
                ("partition", "old stored offset", "new stored offset"),
                [(move.partition, or_dash(move.old_offset), or_dash(move.new_offset)) for move in moves],
            ),
        )
        if dry_run:
            return
        confirm(f"move group {found.name!r} of {path.name}", yes=yes)
        group_reset.execute(client, path, found, moves)
    output.say(f"moved group {found.name!r} of {path.name}")


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@GROUP_ARGUMENT
@with_target
@with_yes
def delete(target: Target, stream: str, topic: str, group: str, yes: bool) -> None:
    """Delete a consumer group with its stored offsets; its members receive no more messages."""
    with target.connected() as client:
        path = find_topic(client, stream, topic)
        found = find_group(client, path, group)
        what = f"group {found.name!r} of {path.name} with {counted(found.members_count, 'member')}"
        confirm(f"delete {what}", yes=yes)
        client.delete_group(path.stream, path.topic, found.id)
    output.say(f"deleted {what}")


def _found(client: Client, stream: str, topic: str, group: str) -> tuple[TopicPath, Topic, ConsumerGroup]:
    path = find_topic(client, stream, topic)
    return path, path.readable(), find_group(client, path, group)


def _messages(lag: int | None) -> int | str:
    return "node not reached" if lag is None else lag


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _print_table(groups: list[ConsumerGroup]) -> None:
    output.print_table(
        ("id", "name", "partitions", "members"),
        ((group.id, group.name, group.partitions_count, group.members_count) for group in groups),
    )
