"""Streams, topics, partitions, groups and users by name; for those that do not exist, a message with those that do.

A text of digits may be an id or a name. It is looked up as both, and refused if both exist: ``id:42`` and ``name:42``
say which one is meant. Users who may not read an object can still use it, for example to send: what they give is then
passed on as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.cli.errors import CommandError, refusal, those_there
from headrace_core import (
    Client,
    ConsumerGroup,
    ServerError,
    Stream,
    Topic,
    User,
    decode_stream,
    decode_user,
    decode_users,
    encode_get_stream,
    encode_get_user,
    encode_get_users,
)

_ID_MAX: Final = 2**32 - 1

Identifier = int | str


class TopicPath(NamedTuple):
    """A topic by what the server knows it by."""

    stream: Identifier
    topic: Identifier
    details: Topic | None
    """The topic; None if the user may not read it."""
    name: str
    """Stream and topic for messages to the user."""
    refusal: str = ""
    """Reason why the user may not read the topic, with the command that permits it."""

    def readable(self) -> Topic:
        """Return the topic.

        Raises:
            CommandError: The user may not read it.
        """
        if self.details is None:
            raise CommandError(self.refusal)
        return self.details

    def partitions(self, wanted: Sequence[int] | None) -> list[int]:
        """Return the partitions that were asked for, or all.

        Raises:
            CommandError: One of them does not exist, or all were asked for and they are unknown.
        """
        if self.details is None:
            if wanted is None:
                raise CommandError(f"{self.refusal}; without it, give the partitions with --partition")
            return list(wanted)
        existing = [partition.id for partition in self.details.partitions]
        for partition in wanted or ():
            if partition not in existing:
                raise CommandError(f"{self.name} has {_ranges(existing)}, not {partition}")
        return existing if wanted is None else list(wanted)


def candidates(text: str) -> list[Identifier]:
    """Return what a text given for an object may mean, ids first.

    Raises:
        CommandError: It is not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CommandError(f"{text!r} is not UTF-8, which names are", status=2) from error
    kind, colon, rest = text.partition(":")
    if colon and kind == "name":
        return [rest]
    digits = rest if colon and kind == "id" else text
    if digits.isascii() and digits.isdecimal():
        number: list[Identifier] = [int(digits)] if int(digits) <= _ID_MAX else []
        return number if digits is rest and colon else [*number, text]
    return [text]


def find_stream(client: Client, text: str) -> Stream:
    """Return a stream.

    Raises:
        CommandError: There is none of this name or id, or there is one of each.
        ServerError: The user may not read it.
    """
    found = [stream for given in candidates(text) if (stream := _stream(client, given)) is not None]
    if len(found) > 1:
        id_, name = found
        raise CommandError(
            f"{text!r} is the id of stream {id_.name!r} and the name of stream {name.id}: give id:{text} or name:{text}"
        )
    if not found:
        raise CommandError(_no_stream(client, text))
    return found[0]


def find_topic(client: Client, stream: str, topic: str) -> TopicPath:
    """Return a topic.

    Raises:
        CommandError: The stream or the topic does not exist, or one of them is ambiguous.
    """
    try:
        parent = find_stream(client, stream)
    except ServerError as error:
        if error.name != "Unauthorized":
            raise
        # This user may read the topic without reading its stream.
        return _unseen(client, stream, topic)
    found = [one for given in candidates(topic) if (one := client.topic(parent.id, given)) is not None]
    if len(found) > 1:
        id_, name = found
        raise CommandError(
            f"{topic!r} is the id of topic {id_.name!r} and the name of topic {name.id} of stream {parent.name!r}: "
            f"give id:{topic} or name:{topic}"
        )
    if not found:
        there = those_there(
            (one.name for one in parent.topics), otherwise=f"headrace topic create {parent.name} {topic}"
        )
        raise CommandError(f"there is no topic {topic!r} in stream {parent.name!r} {there}")
    return TopicPath(parent.id, found[0].id, found[0], f"{parent.name}/{found[0].name}")


def find_user(client: Client, text: str) -> User:
    """Return a user with permissions.

    Raises:
        CommandError: There is none of this name or id, or there is one of each.
    """
    found = [user for given in candidates(text) if (user := _user(client, given)) is not None]
    if len(found) > 1:
        raise CommandError(
            f"{text!r} is the id of user {found[0].username!r} and the name of user {found[1].id}: "
            f"give id:{text} or name:{text}"
        )
    if not found:
        names = [user.username for user in decode_users(client.request(*encode_get_users()))]
        raise CommandError(f"there is no user {text!r} {those_there(names, otherwise=f'headrace user create {text}')}")
    return found[0]


def _user(client: Client, given: Identifier) -> User | None:
    return decode_user(client.request(*encode_get_user(user=given)))


def find_group(client: Client, path: TopicPath, text: str) -> ConsumerGroup:
    """Return a consumer group of a topic.

    Raises:
        CommandError: There is none of this name or id, or there is one of each.
    """
    found = [one for given in candidates(text) if (one := client.group(path.stream, path.topic, given)) is not None]
    if len(found) > 1:
        raise CommandError(
            f"{text!r} is the id of group {found[0].name!r} and the name of group {found[1].id}: "
            f"give id:{text} or name:{text}"
        )
    if not found:
        names = [group.name for group in client.groups(path.stream, path.topic)]
        there = those_there(names, otherwise=f"headrace group create {path.name.replace('/', ' ')} {text}")
        raise CommandError(f"there is no group {text!r} in {path.name} {there}")
    return found[0]


def _stream(client: Client, given: Identifier) -> Stream | None:
    return decode_stream(client.request(*encode_get_stream(stream=given)))


def _no_stream(client: Client, text: str) -> str:
    try:
        names = [stream.name for stream in client.streams()]
    except ServerError:
        return f"there is no stream {text!r}, or this user may not see it"
    return f"there is no stream {text!r} {those_there(names, otherwise=f'headrace stream create {text}')}"


def _unseen(client: Client, stream: str, topic: str) -> TopicPath:
    parent, child, name = candidates(stream)[0], candidates(topic)[0], f"{stream}/{topic}"
    try:
        return TopicPath(parent, child, client.topic(parent, child), name)
    except ServerError as error:
        if error.name != "Unauthorized":
            raise
        return TopicPath(parent, child, None, name, refusal(error))


def _ranges(partitions: list[int]) -> str:
    if not partitions:
        return "no partitions"
    if len(partitions) == 1:
        return f"partition {partitions[0]}"
    # Partitions are numbered without gaps: the highest are removed first.
    return f"partitions {partitions[0]} to {partitions[-1]}"
