"""`headrace user create | list | show | rename | password | activate | deactivate | grant | revoke | delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import click

from headrace.cli import output
from headrace.cli.asking import confirm, with_yes
from headrace.cli.documents import ShownUserDocument, grant_documents, user_document
from headrace.cli.errors import CommandError
from headrace.cli.family import family
from headrace.cli.granting import changed, rights_of
from headrace.cli.options import completing
from headrace.cli.options.arguments import USER_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import NewName
from headrace.cli.servers.resolving import find_stream, find_topic, find_user
from headrace.cli.servers.target import Target, ask_password
from headrace_core import (
    Client,
    ServerError,
    User,
    decode_user,
    decode_users,
    encode_change_password,
    encode_create_user,
    encode_delete_user,
    encode_get_users,
    encode_update_permissions,
    encode_update_user,
)

_USERNAME: Final = NewName("a user", 3, 50)
_PASSWORD: Final = NewName("a password", 3, 100)


@family("user", "Manage users and their permissions.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@click.argument("name", type=_USERNAME)
@click.option(
    "--new-password",
    envvar="HEADRACE_NEW_PASSWORD",
    help="Password of the new user; without it, a terminal is asked. Prefer HEADRACE_NEW_PASSWORD.",
)
@with_target
@with_form
def create(target: Target, form: Form, name: str, new_password: str | None) -> None:
    """Create a user without permissions: `headrace user grant` gives some."""
    with target.connected() as client:
        password = _new_password(name, new_password)
        try:
            created = decode_user(client.request(*encode_create_user(username=name, password=password)))
        except ServerError as error:
            if error.name != "UserAlreadyExists":
                raise
            raise CommandError(f"there is a user {name!r} already") from error
        found = created if created is not None else find_user(client, name)
    output.show(form, user_document(found), lambda: _print_table([found]))


@app.command("list")
@with_target
@with_form
def list_users(target: Target, form: Form) -> None:
    """List the users."""
    with target.connected() as client:
        users = decode_users(client.request(*encode_get_users()))
    output.show(form, [user_document(user) for user in users], lambda: _print_table(users))


@app.command()
@USER_ARGUMENT
@with_target
@with_form
def show(target: Target, form: Form, user: str) -> None:
    """Show a user with its permissions."""
    with target.connected() as client:
        found = find_user(client, user)
        grants = grant_documents(found.permissions)
        names = _names(client) if grants else {}
    document: ShownUserDocument = {**user_document(found), "grants": grants}

    def print_for_users() -> None:
        _print_table([found])
        output.stdout().print()
        output.print_table(
            ("on", "permissions"),
            [
                (_place(names, grant["stream_id"], grant["topic_id"]), ", ".join(grant["permissions"]))
                for grant in grants
            ],
        )

    output.show(form, document, print_for_users)


@app.command()
@USER_ARGUMENT
@click.argument("name", type=_USERNAME)
@with_target
def rename(target: Target, user: str, name: str) -> None:
    """Give a user another NAME."""
    with target.connected() as client:
        found = find_user(client, user)
        client.request(*encode_update_user(user=found.id, username=name))
    output.say(f"user {found.username!r} is now {name!r}")


@app.command()
@USER_ARGUMENT
@click.option(
    "--current-password",
    envvar="HEADRACE_CURRENT_PASSWORD",
    help="Password that the user has now; without it, a terminal is asked.",
)
@click.option(
    "--new-password",
    envvar="HEADRACE_NEW_PASSWORD",
    help="Password from now on; without it, a terminal is asked.",
)
@with_target
def password(target: Target, user: str, current_password: str | None, new_password: str | None) -> None:
    """Change the password of a user, which ends its logins."""
    with target.connected() as client:
        found = find_user(client, user)
        current = current_password if current_password is not None else ask_password(found.username)
        new = _new_password(found.username, new_password)
        try:
            client.request(*encode_change_password(user=found.id, current_password=current, new_password=new))
        except ServerError as error:
            if error.name != "InvalidCredentials":
                raise
            raise CommandError(f"this is not the current password of {found.username!r}") from error
    output.say(f"changed the password of {found.username!r}")


@app.command()
@USER_ARGUMENT
@with_target
def activate(target: Target, user: str) -> None:
    """Let a user log in again."""
    _set_status(target, user, "active")


@app.command()
@USER_ARGUMENT
@with_target
def deactivate(target: Target, user: str) -> None:
    """Keep a user from logging in."""
    _set_status(target, user, "inactive")


def _place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    stream = click.option(
        "--stream", shell_complete=completing.streams, help="Stream that the permissions are for; otherwise all."
    )
    topic = click.option(
        "--topic", shell_complete=completing.topics, help="Topic of the stream that they are for; otherwise all."
    )
    return stream(topic(function))


@app.command()
@USER_ARGUMENT
@click.argument("permissions", metavar="PERMISSION...", nargs=-1, required=True)
@_place_options
@with_target
def grant(target: Target, user: str, permissions: tuple[str, ...], stream: str | None, topic: str | None) -> None:
    """Give a user permissions, such as send_messages, or those of a role: `consumer` or `producer`.

    A consumer may read messages, join groups and store offsets; a producer may also send. An unknown permission gets a
    list of all.
    """
    _change(target, user, permissions, stream, topic, given=True)


@app.command()
@USER_ARGUMENT
@click.argument("permissions", metavar="PERMISSION...", nargs=-1, required=True)
@_place_options
@with_target
def revoke(target: Target, user: str, permissions: tuple[str, ...], stream: str | None, topic: str | None) -> None:
    """Take permissions from a user. Wider ones that it also has stay: see `headrace user show`."""
    _change(target, user, permissions, stream, topic, given=False)


@app.command()
@USER_ARGUMENT
@with_target
@with_yes
def delete(target: Target, user: str, yes: bool) -> None:
    """Delete a user with its access tokens."""
    with target.connected() as client:
        found = find_user(client, user)
        confirm(f"delete user {found.username!r}", yes=yes)
        client.request(*encode_delete_user(user=found.id))
    output.say(f"deleted user {found.username!r}")


def _new_password(name: str, given: str | None) -> str:
    password = (
        given if given is not None else ask_password(name, variable="HEADRACE_NEW_PASSWORD", prompt="New password")
    )
    try:
        return _PASSWORD(password)
    except click.BadParameter:
        raise CommandError("a password has 3 to 100 bytes; this one has not", status=2) from None


def _set_status(target: Target, user: str, status: Literal["active", "inactive"]) -> None:
    with target.connected() as client:
        found = find_user(client, user)
        client.request(*encode_update_user(user=found.id, status=status))
    output.say(f"user {found.username!r} is {status}")


def _change(
    target: Target, user: str, names: tuple[str, ...], stream: str | None, topic: str | None, *, given: bool
) -> None:
    if topic is not None and stream is None:
        raise click.UsageError("--topic needs --stream")
    with target.connected() as client:
        found = find_user(client, user)
        stream_id = topic_id = None
        place = "everywhere"
        if stream is not None and topic is not None:
            path = find_topic(client, stream, topic)
            stream_id, topic_id, place = find_stream(client, stream).id, path.readable().id, f"on {path.name}"
        elif stream is not None:
            parent = find_stream(client, stream)
            stream_id, place = parent.id, f"on stream {parent.name!r}"
        rights = rights_of(names, stream_id, topic_id)
        permissions = changed(found.permissions, stream_id, topic_id, rights, given=given)
        try:
            client.request(*encode_update_permissions(user=found.id, permissions=permissions))
        except ServerError as error:
            if error.name != "CannotChangePermissions":
                raise
            raise CommandError(f"the permissions of {found.username!r}, the root user, cannot be changed") from error
    output.say(f"{found.username!r} {'has' if given else 'no longer has'} {', '.join(rights)} {place}")


def _names(client: Client) -> dict[tuple[int, int | None], str]:
    """Return the names of streams and topics by their ids, as far as they may be read."""
    names: dict[tuple[int, int | None], str] = {}
    try:
        for stream in client.streams():
            names[stream.id, None] = stream.name
            names |= {(stream.id, topic.id): topic.name for topic in client.topics(stream.id)}
    except ServerError:
        pass
    return names


def _place(names: dict[tuple[int, int | None], str], stream_id: int | None, topic_id: int | None) -> str:
    if stream_id is None:
        return "everything"
    stream = names.get((stream_id, None), str(stream_id))
    return stream if topic_id is None else f"{stream}/{names.get((stream_id, topic_id), str(topic_id))}"


def _print_table(users: list[User]) -> None:
    output.print_table(
        ("id", "name", "status", "created"),
        [(user.id, user.username, user.status, output.date(user.created_at_micros)) for user in users],
    )
