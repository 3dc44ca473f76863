"""`headrace completion`."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="Shell to print the script for: bash, zsh or fish.")],
) -> None:
    """Print a script for shell completion of commands and options.

    For bash: headrace completion bash > ~/.local/share/bash-completion/completions/headrace
    """
    # The command line library prints the script if this variable is set.
    os.environ["_HEADRACE_COMPLETE"] = f"source_{shell}"
    context.find_root().command.main(args=[], prog_name="headrace")
