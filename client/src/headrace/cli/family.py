"""Groups of commands, such as `headrace stream`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import click

from headrace.cli.other_names import IN_FAMILY


class Family(click.Group):
    """Commands about one kind of object, listed in the order of their definition."""

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = IN_FAMILY
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
