"""`headrace quota set | show | list | delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headrace.cli import output
from headrace.cli.documents import QuotaDocument, quota_document
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.options import completing
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import SIZE, WholeNumber
from headrace.cli.servers.resolving import TopicPath, find_topic, find_user
from headrace.cli.servers.target import Target
from headrace_core import (
    Client,
    ServerError,
    User,
    decode_quota,
    decode_quotas,
    encode_get_quotas,
    encode_get_topic_quota,
    encode_get_user_quota,
    encode_set_topic_quota,
    encode_set_user_quota,
)
from headrace_proto.limits import QUOTA_RATE_BYTES_MIN

if TYPE_CHECKING:
    from headrace_settings import Size


class _Limits(NamedTuple):
    """Limits that a command was given; 0 is none."""

    sent: int = 0
    read: int = 0
    held: int = 0
    connections: int = 0


@family("quota", "Limit what users and topics use.")
def app() -> None:
    """Do nothing: the work is in the commands."""


def _with_subject(function: Callable[..., Any]) -> Callable[..., Any]:
    user = click.option("--user", shell_complete=completing.users, help="User whose quota it is.")
    stream = click.option("--stream", shell_complete=completing.streams, help="Stream of the topic.")
    topic = click.option("--topic", shell_complete=completing.topics, help="Topic whose quota it is.")
    return user(stream(topic(function)))


@app.command("set")
@_with_subject
@click.option("--sent", type=SIZE, help='Bytes of messages sent per second, such as "10 MiB".')
@click.option("--read", type=SIZE, help='Bytes of messages read per second, such as "10 MiB".')
@click.option("--held", type=SIZE, help='Bytes that a topic holds, such as "100 GiB".')
@click.option("--connections", type=WholeNumber(1), help="Connections that a user has at a time.")
@with_target
def set_quota(
    target: Target,
    user: str | None,
    stream: str | None,
    topic: str | None,
    sent: Size | None,
    read: Size | None,
    held: Size | None,
    connections: int | None,
) -> None:
    """Set the quota of a user or a topic. What is not given has no limit."""
    limits = _Limits(_rate("--sent", sent), _rate("--read", read), held.bytes if held else 0, connections or 0)
    if not any(limits):
        raise click.UsageError("give a limit, or remove the quota: headrace quota delete")
    if user is not None and held is not None:
        raise click.UsageError("--held is for topics: users hold no bytes")
    if user is None and connections is not None:
        raise click.UsageError("--connections is for users: topics have none")
    with target.connected() as client:
        name = _replace(client, user, stream, topic, limits)
    output.say(f"set the quota of {name}")


@app.command()
@_with_subject
@with_target
@with_form
def show(target: Target, form: Form, user: str | None, stream: str | None, topic: str | None) -> None:
    """Show the quota of a user or a topic."""
    _check_subject(user, stream, topic)
    with target.connected() as client:
        if user is not None:
            document = _of_user(client, find_user(client, user))
        else:
            document = _of_topic(client, find_topic(client, stream or "", topic or ""))
    output.show(form, document, lambda: _print_table([document]))


@app.command("list")
@with_target
@with_form
def list_quotas(target: Target, form: Form) -> None:
    """List the quotas of the users and topics that this user may read, and its own."""
    with target.connected() as client:
        records = decode_quotas(client.request(*encode_get_quotas()))
    documents = [
        quota_document(
            record.quota,
            user_id=record.user_id,
            user=record.username,
            stream=record.stream,
            topic_id=record.topic_id,
            topic=record.topic,
        )
        for record in records
    ]
    output.show(form, documents, lambda: _print_table(documents))


@app.command()
@_with_subject
@with_target
def delete(target: Target, user: str | None, stream: str | None, topic: str | None) -> None:
    """Remove the quota of a user or a topic, which then has no limits."""
    with target.connected() as client:
        name = _replace(client, user, stream, topic, _Limits())
    output.say(f"{name} has no quota")


def _of_user(client: Client, user: User) -> QuotaDocument:
    quota = decode_quota(client.request(*encode_get_user_quota(user=user.id)))
    if quota is None:
        raise CommandError(f"the user {user.username!r} was deleted just now")
    return quota_document(quota, user_id=user.id, user=user.username)


def _of_topic(client: Client, path: TopicPath) -> QuotaDocument:
    quota = decode_quota(client.request(*encode_get_topic_quota(stream=path.stream, topic=path.topic)))
    if quota is None or path.details is None:
        raise CommandError(f"{path.name} was deleted just now")
    name = path.details.name
    stream = path.name.removesuffix(f"/{name}")
    return quota_document(quota, stream=stream, topic_id=path.details.id, topic=name)


def _check_subject(user: str | None, stream: str | None, topic: str | None) -> None:
    of_topic = stream is not None and topic is not None
    if (user is not None) == of_topic or (user is not None and (stream is not None or topic is not None)):
        raise click.UsageError("give --user, or --stream and --topic")


def _rate(option: str, rate: Size | None) -> int:
    if rate is None:
        return 0
    if rate.bytes < QUOTA_RATE_BYTES_MIN:
        raise click.UsageError(f"{option} is at least 1 KiB per second")
    return rate.bytes


def _replace(client: Client, user: str | None, stream: str | None, topic: str | None, limits: _Limits) -> str:
    """Replace a quota, and return whose it is."""
    _check_subject(user, stream, topic)
    if user is None:
        path = find_topic(client, stream or "", topic or "")
        command = encode_set_topic_quota(
            stream=path.stream,
            topic=path.topic,
            sent_bytes_per_second=limits.sent,
            read_bytes_per_second=limits.read,
            held_bytes=limits.held,
        )
        client.request(*command)
        return f"topic {path.name!r}"
    owner = find_user(client, user)
    command = encode_set_user_quota(
        user=owner.id,
        sent_bytes_per_second=limits.sent,
        read_bytes_per_second=limits.read,
        connections=limits.connections,
    )
    try:
        client.request(*command)
    except ServerError as error:
        if error.name != "CannotChangePermissions":
            raise
        raise CommandError(f"{owner.username!r}, the root user, has no quota") from error
    return f"user {owner.username!r}"


def _print_table(documents: list[QuotaDocument]) -> None:
    output.print_table(
        ("of", "sent", "read", "held", "connections"),
        [
            (
                document["user"] if document["user_id"] is not None else f"{document['stream']}/{document['topic']}",
                _shown(document["sent_bytes_per_second"], "/s"),
                _shown(document["read_bytes_per_second"], "/s"),
                _shown(document["held_bytes"]),
                output.or_dash(document["connections"]),
            )
            for document in documents
        ],
    )


def _shown(size_bytes: int | None, unit: str = "") -> object:
    return output.or_dash(f"{output.size(size_bytes)}{unit}" if size_bytes is not None else None)
