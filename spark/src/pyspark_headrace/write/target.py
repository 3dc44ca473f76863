"""Target topics of a write: resolved on the driver, and again by tasks after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_headrace.cluster.description import Topic
from pyspark_headrace.cluster.gateway import WRITE, Gateway, is_missing
from pyspark_headrace.errors import ServerRefusedError
from pyspark_headrace.options.writing import WriteOptions


@dataclass(frozen=True)
class Target:
    """A topic with a ticket for appending."""

    topic: Topic
    ticket: str = field(repr=False)
    lifetime_seconds: float
    """Remaining lifetime of the ticket at the time of the look-up."""


Targets = Mapping[str, Target]
"""Targets by topic name: all topics that rows of one batch may be written to."""


def find_all(options: WriteOptions) -> dict[str, Target]:
    """Look up all topics of the options, and create missing ones if the options allow it.

    Raises:
        ServerRefusedError: A topic does not exist, or the user is not authorized.
        UnreachableError: No server answers.
    """
    return {name: find(options, name) for name in options.topic_names}


def find(options: WriteOptions, name: str) -> Target:
    """Look up one topic, and create it if the options allow it.

    Raises:
        ServerRefusedError: The topic does not exist, or the user is not authorized.
        UnreachableError: No server answers.
    """
    gateway = Gateway(options)
    try:
        topic = gateway.describe(options.stream, (name,)).topics[name]
    except ServerRefusedError as error:
        if not options.create_topic or not is_missing(error):
            raise
        gateway.create_topic(options.stream, name, options.partitions, options.retention_ms)
        topic = gateway.describe(options.stream, (name,)).topics[name]
    if not topic.partitions:
        raise ServerRefusedError(f"{topic.title} has no partitions to write to")
    issued = gateway.ticket(topic, WRITE)
    return Target(topic, issued.text, issued.lifetime_seconds)
