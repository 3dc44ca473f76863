"""Groups of commands, such as `headrace stream`, and the names that other systems have for commands and options."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

import click

OTHER_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "produce": ("send",),
        "publish": ("send",),
        "pub": ("send",),
        "write": ("send",),
        "consume": ("poll", "poll --follow"),
        "read": ("poll",),
        "get": ("poll",),
        "subscribe": ("poll --follow",),
        "sub": ("poll --follow",),
        "tail": ("poll --follow",),
        "follow": ("poll --follow",),
        "watch": ("poll --follow",),
        "search": ("poll --grep",),
        "grep": ("poll --grep",),
        "lag": ("group list", "group lag"),
        "offsets": ("group show", "group reset"),
        "seek": ("group reset",),
        "create": ("stream create", "topic create"),
        "delete": ("stream delete", "topic delete"),
        "list": ("stream list", "topic list"),
        "ls": ("stream list", "topic list"),
        "describe": ("topic show", "group show"),
        "show": ("topic show", "group show"),
        "streams": ("stream list",),
        "topics": ("topic list",),
        "groups": ("group list",),
        "users": ("user list",),
        "grant": ("user grant",),
        "acl": ("user grant",),
        "permissions": ("user grant",),
        "login": ("context add",),
        "profile": ("context",),
        "server": ("up",),
        "serve": ("up",),
        "start": ("up",),
        "run": ("up", "connect run"),
        "status": ("stats", "cluster status"),
        "info": ("stats", "cluster status"),
        "health": ("ping", "doctor"),
        "logs": ("audit",),
        "redrive": ("connect redrive",),
        "connector": ("connect",),
        "connectors": ("connect status",),
    }
)
"""Commands of `headrace` by the first word that was typed."""

_OTHERS_IN_FAMILY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "add": ("create",),
        "new": ("create",),
        "make": ("create",),
        "rm": ("delete",),
        "remove": ("delete",),
        "drop": ("delete",),
        "ls": ("list",),
        "describe": ("show",),
        "info": ("show",),
        "get": ("show",),
        "alter": ("update",),
        "edit": ("update",),
        "set": ("update",),
        "truncate": ("purge",),
        "clear": ("purge",),
        "seek": ("reset",),
        "offsets": ("show",),
    }
)
"""Commands of a family, such as `topic`, by the word that was typed."""

OTHER_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "--retention": ("--message-expiry", "--max-size"),
        "--retention-ms": ("--message-expiry",),
        "--retention-bytes": ("--max-size",),
        "--ttl": ("--message-expiry", "--expiry"),
        "--expires": ("--expiry", "--message-expiry"),
        "--max-age": ("--message-expiry",),
        "--max-bytes": ("--max-size",),
        "--from-beginning": ("--from first",),
        "--offset": ("--from",),
        "--since": ("--from",),
        "--start": ("--from",),
        "--tail": ("--follow",),
        "--max-messages": ("--count",),
        "--limit": ("--count",),
        "--filter": ("--grep",),
        "--bootstrap-server": ("--server",),
        "--broker": ("--server",),
        "--brokers": ("--server",),
        "--host": ("--server",),
        "--url": ("--server",),
        "--user": ("--username",),
        "--format": ("--output",),
        "--force": ("--yes",),
    }
)
"""Options by that which was typed; those that the command does not have are no proposals."""


class Family(click.Group):
    """Commands about one kind of object, listed in the order of their definition."""

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = _OTHERS_IN_FAMILY
    """Commands by names that other systems have for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - they are the same everywhere
        """Return the names in the order of the definition."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands with the whole first sentence of their help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in self.commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown name, propose the most similar one."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            others = self.other_names.get(name, ())
            meant = [other for other in others if other.split()[0] in names]
            similar = meant or difflib.get_close_matches(name, names)
            proposal = f"did you mean {' or '.join(similar)}?" if similar else f"there are {', '.join(names)}"
            ctx.fail(f"there is no command {name!r}: {proposal}")
        return super().resolve_command(ctx, args)


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000)


def family(name: str, summary: str) -> Callable[[Callable[..., Any]], Family]:
    """Return a decorator that makes a function without parameters a group of commands."""
    return click.group(name, cls=Family, help=summary)
