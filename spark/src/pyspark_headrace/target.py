"""Topics that are written to: found on the driver, and again by tasks when something has moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_headrace.description import Topic
from pyspark_headrace.errors import ServerRefusedError
from pyspark_headrace.gateway import WRITE, Gateway, is_missing
from pyspark_headrace.options.writing import WriteOptions


@dataclass(frozen=True)
class Target:
    """A topic with a ticket to append to it."""

    topic: Topic
    ticket: str = field(repr=False)


Targets = Mapping[str, Target]
"""By name: all that rows of one batch may go to."""


def find_all(options: WriteOptions) -> dict[str, Target]:
    """Look for the topics, and make those that are to be made.

    Raises:
        ServerRefusedError: One is not there, or not for this user.
        UnreachableError: No server answers.
    """
    return {name: find(options, name) for name in options.topic_names}


def find(options: WriteOptions, name: str) -> Target:
    """Look for one of them.

    Raises:
        ServerRefusedError: It is not there, or not for this user.
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
    return Target(topic, gateway.ticket(topic, WRITE).text)
