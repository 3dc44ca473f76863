"""Parts of the command line that other packages bring, as entry points of the group `headrace.commands`.

They are looked up when they are used: reading what is installed takes as long as printing the list of all commands.
"""

from __future__ import annotations

from typing import Any, Final

import click

from headrace.cli.errors import CommandError

GROUP: Final = "headrace.commands"


def provided(name: str, title: str) -> Any:
    """Return the object of an entry point.

    Args:
        name: Name of the entry point.
        title: Part of the command line that it is, for the message.

    Raises:
        CommandError: No installed package has the entry point.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - most commands do without

    for found in entry_points(group=GROUP, name=name):
        return found.load()
    raise CommandError(
        f"{title} comes with the package headrace_connectors, which is not installed here: install the distribution "
        "headrace (pip install --force-reinstall headrace; in a checkout: make setup)"
    )


def provided_command(name: str) -> click.Command:
    """Return a command that another package brings; without that package, one that says so."""
    try:
        command: click.Command = provided(name, f"headrace {name}")
    except CommandError as error:
        missing = error

        def refuse(_words: object) -> None:
            raise missing

        words = click.Argument(["_words"], nargs=-1, type=click.UNPROCESSED)
        settings = {"ignore_unknown_options": True}
        return click.Command(name, settings, refuse, [words], add_help_option=False)
    return command
