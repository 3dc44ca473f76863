"""`headrace completion`."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)), metavar="SHELL")
@click.pass_context
def app(context: click.Context, shell: str) -> None:
    """Print a script for shell completion of commands, options and names. SHELL is bash, zsh or fish.

    Names of streams, topics, groups and users come from the server of the variables or of the context in use.

    For bash: headrace completion bash > ~/.local/share/bash-completion/completions/headrace
    """
    click.echo(_SHELLS[shell](context.find_root().command, {}, "headrace", "_HEADRACE_COMPLETE").source())
