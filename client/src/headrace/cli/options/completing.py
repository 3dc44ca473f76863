"""Names for completion by the shell, from the server; nothing within a short time is better than an error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem

from headrace.cli.servers.contexts import Contexts
from headrace.cli.servers.target import target_of
from headrace.connection import Credentials, Token
from headrace_core import Client, decode_users, encode_get_users

TIMEOUT_SECONDS: Final = 0.5
"""Time for an answer for completion."""
_SHOWN_MAX: Final = 200


def contexts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of contexts."""

    def names() -> list[tuple[str, str]]:
        return [(name, one.server) for name, one in Contexts.load().by_name.items()]

    return items(names, incomplete)


def streams(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of streams."""
    return items(lambda: [(stream.name, "stream") for stream in _Server(context).client.streams()], incomplete)


def topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of the topics of the stream that was typed before."""

    def names() -> list[tuple[str, str]]:
        found = _Server(context).client.topics(_argument(context, 0, "stream"))
        return [(topic.name, f"{topic.partitions_count} partitions") for topic in found]

    return items(names, incomplete)


def groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of the consumer groups of the topic that was typed before."""

    def names() -> list[tuple[str, str]]:
        found = _Server(context).client.groups(_argument(context, 0, "stream"), _argument(context, 1, "topic"))
        return [(group.name, f"{group.members_count} members") for group in found]

    return items(names, incomplete)


def users(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of users."""

    def names() -> list[tuple[str, str]]:
        return [(user.username, user.status) for user in decode_users(_Server(context).ask(*encode_get_users()))]

    return items(names, incomplete)


class _Server:
    """A connection for one completion; its process ends right after it."""

    def __init__(self, context: click.Context) -> None:
        target = target_of(
            *(given_option(context, name) for name in ("server", "context", "username", "password", "token"))
        )
        if target.token is None and target.password is None:
            raise LookupError
        self.client = Client.connect(target.address, TIMEOUT_SECONDS)
        match target.credentials():
            case Token(text=text):
                self.client.login_with_token(text)
            case Credentials(username=username, password=password):
                self.client.login(username, password)

    def ask(self, code: int, payload: bytes) -> bytes:
        return self.client.request(code, payload)


def _argument(context: click.Context, index: int, name: str) -> str:
    """Return an argument; the parser leaves them where they are if the last option still lacks its value."""
    value = context.params.get(name)
    return value if isinstance(value, str) else context.args[index]


def given_option(context: click.Context, name: str) -> str | None:
    """Return an option, or its variable, which a command line that is still incomplete does not fill in."""
    value = context.params.get(name)
    if value is None:
        for option in context.command.params:
            if option.name == name:
                value = option.value_from_envvar(context)
    return value if isinstance(value, str) else None


def items(names: Callable[[], list[tuple[str, str]]], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin as what was typed; none if they cannot be had."""
    # Whatever fails here: a traceback would be printed into the line that the user types.
    with suppress(Exception):
        found = [(name, about) for name, about in names() if name.startswith(incomplete)]
        return [CompletionItem(name, help=about) for name, about in found[:_SHOWN_MAX]]
    return []
