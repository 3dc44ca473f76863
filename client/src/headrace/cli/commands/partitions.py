"""`headrace partition add | remove`."""

from __future__ import annotations

import click

from headrace.cli import output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.parameters import WholeNumber
from headrace.cli.servers.resolving import find_topic
from headrace.cli.servers.target import Target
from headrace_core import encode_create_partitions, encode_delete_partitions


@family("partition", "Add partitions to a topic, or remove them.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("count", type=WholeNumber(1, 1000))
@with_target
def add(target: Target, stream: str, topic: str, count: int) -> None:
    """Append COUNT partitions to a topic. Messages with keys go to other partitions from then on."""
    with target.connected() as client:
        found = find_topic(client, stream, topic)
        client.request(*encode_create_partitions(stream=found.stream, topic=found.topic, partitions_count=count))
    output.say(f"added {counted(count, 'partition')} to {found.name}")


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("count", type=WholeNumber(1, 1000))
@with_target
@with_yes
def remove(target: Target, stream: str, topic: str, count: int, yes: bool) -> None:
    """Remove the COUNT highest-numbered partitions of a topic, with their messages."""
    with target.connected() as client:
        found = find_topic(client, stream, topic)
        messages = ""
        if found.details is not None:
            if count > found.details.partitions_count:
                raise CommandError(
                    f"{found.name} has {counted(found.details.partitions_count, 'partition')}, not {count}"
                )
            removed = found.details.partitions[-count:]
            messages = f" with {counted(sum(one.messages_count for one in removed), 'message')}"
        what = f"the last {counted(count, 'partition')} of {found.name}{messages}"
        confirm(f"remove {what}", yes=yes)
        client.request(*encode_delete_partitions(stream=found.stream, topic=found.topic, partitions_count=count))
    output.say(f"removed {what}")
