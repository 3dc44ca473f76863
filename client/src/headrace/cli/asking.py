"""Questions before something is deleted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from headrace.cli.errors import CommandError


def with_yes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--yes` to a command that asks, which gets a parameter `yes`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(function)


def confirm(deed: str, *, yes: bool) -> None:
    """Ask on the terminal, unless the command line has said yes.

    Args:
        deed: What is about to happen, as an imperative: "delete stream 'shop' with 3 topics".
        yes: The option `--yes`.

    Raises:
        CommandError: The answer is no, or there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"without a terminal to ask on, this does not {deed}: add --yes")
    if not click.confirm(f"{deed[:1].upper()}{deed[1:]}?", err=True):
        raise CommandError("nothing was changed")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 topic``, ``1,200 messages``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
