"""All commands by name. A command is imported when it is run: the server takes longer to import than most to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from headrace.cli.family import OTHER_COMMANDS, Family
from headrace.cli.providers import provided_command


class Entry(NamedTuple):
    """A command or a group of commands."""

    module: str | None
    """Module in `commands` that has it as `app`; None: another package brings it."""
    summary: str
    """First sentence of its help, so that the list of commands imports none of them."""


COMMANDS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "up": Entry("operating.up", "Run the server in the foreground."),
        "ping": Entry("ping", "Check that a server responds, without a login."),
        "stream": Entry("streams", "Manage streams, which are namespaces of topics."),
        "topic": Entry("topics", "Manage topics, which are partitioned logs of messages."),
        "partition": Entry("partitions", "Add partitions to a topic, or remove them."),
        "group": Entry("groups", "Manage consumer groups, whose members share the partitions of a topic."),
        "send": Entry("send", "Send messages: arguments, lines of a file, or lines of standard input."),
        "poll": Entry("poll", "Read messages and print them."),
        "export": Entry("export", "Write the messages of a topic to a file."),
        "import": Entry("import_", "Send the messages of a file to a topic."),
        "user": Entry("users", "Manage users and their permissions."),
        "quota": Entry("quotas", "Limit what users and topics use."),
        "token": Entry("tokens", "Manage the personal access tokens of the user that is logged in."),
        "client": Entry("clients", "List and close client connections."),
        "stats": Entry("stats", "Show the statistics of a server."),
        "cluster": Entry("operating.cluster", "Show the state of a cluster, as a gateway sees it."),
        "audit": Entry("operating.audit", "Show logins, refusals for missing permissions, and changes; oldest first."),
        "bench": Entry(
            "operating.bench", "Measure the throughput, latency percentiles and CPU time per GB of a server."
        ),
        "fsck": Entry(
            "operating.fsck", "Check every file in the data directory of a stopped server or partition node."
        ),
        "doctor": Entry("operating.doctor", "Check this machine, and whether a server can be reached."),
        "context": Entry("contexts", "Manage named servers with their credentials."),
        "connect": Entry(None, "Run and check connectors, which move records between topics and other systems."),
        "config": Entry("operating.config", "Check and show the settings of a service without starting it."),
        "metadata": Entry("operating.metadata", "Inspect and repair the replicas of the metadata service."),
        "completion": Entry("completion", "Print a script for shell completion of commands, options and names."),
    }
)


_FRONT: Final = {
    "-s": "--server",
    "-u": "--username",
    **{name: name for name in ("--server", "--context", "--username", "--password", "--token")},
}
"""Options with a value that may stand in front of the command, as in other programs, with their long form."""


class _Commands(Family):
    """Imports a command on first use."""

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = OTHER_COMMANDS

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the options of the server behind the command, which knows them."""
        front, rest = _in_front(args)
        if front and not rest:
            ctx.fail("a command is missing after the options")
        if front:
            command = self.get_command(ctx, rest[0])
            is_family = isinstance(command, click.Group) and len(rest) > 1
            place = 2 if is_family and not rest[1].startswith("-") else 1
            args = [*rest[:place], *front, *rest[place:]]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - they are the same everywhere
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if entry.module is None:
            return provided_command(cmd_name)
        command: click.Command = import_module(f"headrace.cli.commands.{entry.module}").app
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.summary) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        # Options, from the class above that of groups, which would import every command for its help.
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _in_front(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of the server that stand in front, in their long form, and the other words."""
    front: list[str] = []
    rest = list(args)
    while rest:
        name, equals, value = rest[0].partition("=")
        if rest[0] in _FRONT and len(rest) > 1:
            front += [_FRONT[rest[0]], rest[1]]
            del rest[:2]
        elif equals and name in _FRONT and name.startswith("--"):
            front += [name, value]
            del rest[0]
        elif rest[0][:2] in _FRONT and len(rest[0]) > len("-s"):
            front += [_FRONT[rest[0][:2]], rest[0][2:]]
            del rest[0]
        else:
            break
    return front, rest


def _print_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from headrace_core import __version__  # noqa: PLC0415

        click.echo(f"headrace {__version__}")
        context.exit()


@click.group(
    "headrace",
    cls=_Commands,
    help="Headrace: a persistent, partitioned message log.",
    epilog="Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def program() -> None:
    """Do nothing: the work is in the commands."""
