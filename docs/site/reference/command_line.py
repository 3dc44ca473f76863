"""Reference of the command line: every command with its arguments, options, variables and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
from tables import cell, code, prose

from headrace.cli.program import program

INTRODUCTION: Final = """\
# Command line

Made from the commands themselves. `headrace COMMAND --help` prints the same in a terminal, and
`headrace completion` a script with which the shell completes commands and options.

## Exit status

| status | meaning |
| --- | --- |
| 0 | The command has done what it was asked for. |
| 1 | It failed, or found errors (`config check`, `metadata verify`); a message on standard error says which. |
| 2 | The command line is wrong: an unknown command or option, a missing argument, a value that is not allowed. |
| 130 | Interrupted by Ctrl-C. |

## Options of most commands

These are not repeated below.

"""
EVERYWHERE: Final = ("--server", "--context", "--username", "--password", "--token", "--output", "--json")
"""Options that are described once, where they are as here."""


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its full name, in the order of the help."""
    context = click.Context(command)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), f"{path} {name}")
    else:
        yield path, command


def is_argument(parameter: Any) -> bool:
    """Return whether this is an argument, which has a place and no dashes."""
    return not parameter.opts[0].startswith("-")


def usage(path: str, command: Any) -> str:
    """Return a line with the command and its arguments."""
    parts = [path]
    if any(not is_argument(parameter) for parameter in command.params):
        parts.append("[OPTIONS]")
    context = click.Context(command)
    parts += [argument.make_metavar(context) for argument in filter(is_argument, command.params)]
    return " ".join(parts)


def default_of(option: Any) -> str:
    """Return the default of an option as text; empty if there is none, or the help says it."""
    # Otherwise the default is in the help, or there is none.
    if not option.show_default or option.default in (None, False, [], ()) or callable(option.default):
        return ""
    if isinstance(option.default, (list, tuple)):
        return ", ".join(map(str, option.default))
    value = getattr(option.default, "value", option.default)
    return "on" if value is True else str(value)


def row(option: Any) -> str:
    """Return the row of an option."""
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {code(option.make_metavar(click.Context(program)))}"
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    meaning = cell(prose(option.help or ""))
    return (
        f"| {names}{value} | {code(default_of(option))} | {', '.join(code(name) for name in variables)} | "
        f"{'Required. ' if option.required else ''}{meaning} |\n"
    )


def table(options: list[Any]) -> str:
    """Return the table of some options."""
    head = "| option | default | variable | meaning |\n| --- | --- | --- | --- |\n"
    return head + "".join(map(row, options))


def section(path: str, command: Any, common: dict[str, str]) -> str:
    """Return the section of a command."""
    level = "##" if path.count(" ") == 1 else "###"
    parts = [f"{level} {path}\n\n{prose(command.help or '').strip()}\n\n```text\n{usage(path, command)}\n```\n"]
    options = [parameter for parameter in command.params if not is_argument(parameter) and not parameter.hidden]
    shared = [option.opts[0] for option in options if common.get(option.opts[0]) == row(option)]
    own = [option for option in options if option.opts[0] not in shared]
    if own:
        parts.append(table(own))
    if shared:
        parts.append(f"Also {', '.join(map(code, shared))}.\n")
    return "\n".join(parts)


def render() -> str:
    """Return the page."""
    found = list(commands(program, "headrace"))
    options = [option for _, command in found for option in command.params if option.opts[0] in EVERYWHERE]
    # The commonest form of each; commands where it differs list their own.
    rows = {name: [row(option) for option in options if option.opts[0] == name] for name in EVERYWHERE}
    common = {name: max(sorted(set(forms)), key=forms.count) for name, forms in rows.items()}
    first = {row(option): option for option in options}
    parts = [INTRODUCTION, table([first[form] for form in common.values()]), "\n"]
    groups: set[str] = set()
    for path, command in found:
        group = path.rpartition(" ")[0]
        if " " in group and group not in groups:
            groups.add(group)
            parts.append(f"## {group}\n\n")
        parts.append(section(path, command, common) + "\n")
    return "".join(parts).rstrip("\n") + "\n"
