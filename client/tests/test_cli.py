"""Parsing of the command line, without a server."""

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests import command_line

from headrace.cli.messages.sending import Outgoing, batches
from headrace.cli.output import size
from headrace.cli.parameters import START, Address, Start
from headrace.cli.program import COMMANDS, program
from headrace.cli.servers.resolving import candidates


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("next", Start("next")),
        ("first", Start("first")),
        ("last", Start("last")),
        ("0", Start("offset", 0)),
        ("18446744073709551615", Start("offset", 2**64 - 1)),
        ("2026-01-31T12:00:00+00:00", Start("timestamp", 1_769_860_800_000_000)),
    ],
)
def test_where_a_poll_begins(text: str, start: Start) -> None:
    """LOG-9: the five ways of polling."""
    assert START(text) == start


def test_a_moment_without_zone_is_local() -> None:
    moment = dt.datetime(2026, 1, 31, 12).astimezone()
    assert START("2026-01-31T12:00").value == int(moment.timestamp()) * 1_000_000


def outgoing(payloads: list[bytes]) -> list[Outgoing]:
    return [Outgoing(number, payload) for number, payload in enumerate(payloads, 1)]


@given(st.lists(st.binary(max_size=400_000 // 1000)), st.integers(1, 50))
def test_batches_keep_order_and_limits(payloads: list[bytes], messages_max: int) -> None:
    found = list(batches(outgoing(payloads), messages_max))
    assert [message.payload for batch in found for message in batch] == payloads
    assert all(0 < len(batch) <= messages_max for batch in found)


def test_a_full_batch_does_not_wait_for_the_next_message() -> None:
    read = []

    def lines() -> Iterator[Outgoing]:
        for message in outgoing([b"1", b"2", b"3"]):
            read.append(message.payload)
            yield message

    first = next(batches(lines(), 2))
    assert [message.payload for message in first] == read == [b"1", b"2"]


def test_a_batch_stays_near_a_megabyte() -> None:
    found = list(batches(outgoing([b"x" * 400_000] * 5 + [b"y" * 3_000_000, b"z"]), 1000))
    assert [len(batch) for batch in found] == [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        ("7", [7, "7"]),
        ("id:7", [7]),
        ("name:7", ["7"]),
        ("id:x", ["id:x"]),
        ("orders", ["orders"]),
        ("7a", ["7a"]),
        ("4294967296", ["4294967296"]),
        ("\u0667", ["\u0667"]),
        ("-1", ["-1"]),
    ],
)
def test_what_an_identifier_may_mean(text: str, meanings: list[int | str]) -> None:
    assert candidates(text) == meanings


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", "localhost:8090"),
        ("10.0.0.1:9", "10.0.0.1:9"),
        ("[::1]", "[::1]:8090"),
        ("[::1]:9", "[::1]:9"),
        ("tls://a?ca=f", "tls://a:8090?ca=f"),
        ("tls://a:1?verify=no", "tls://a:1?verify=no"),
        ("hrt1.signed@a", "hrt1.signed@a:8090"),
    ],
)
def test_an_address_without_a_port_gets_the_usual_one(text: str, address: str) -> None:
    assert Address()(text) == address


def test_sizes_for_people() -> None:
    assert [size(value) for value in (0, 999, 1000, 1_234_567, 2**64 - 1)] == [
        "0 B",
        "999 B",
        "1 KB",
        "1.23 MB",
        "unlimited",
    ]


def test_version_and_help() -> None:
    assert headrace("--version").stdout == f"headrace {version('headrace')}\n"
    listed = headrace("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_their_help_says(name: str) -> None:
    """The list has texts of its own, so that it need not import the commands."""
    command = program.get_command(click.Context(program), name)
    assert command is not None
    summary = " ".join((command.help or "").split())
    assert summary.startswith(COMMANDS[name].summary)


def test_a_mistyped_command_gets_a_suggestion() -> None:
    refused = headrace("tpic")
    assert refused.returncode == 2
    assert "did you mean topic" in refused.stderr


def test_characters_that_a_terminal_does_not_have_are_escaped() -> None:
    """Regression: the first one ended the command with a traceback. Documents stay the same for their readers."""
    program = """
from headrace.cli import output, streams
streams.prepare()
text = {"text": "Gr\u00f6\u00dfe \U0001f600"}
output.print_json(text)
output.print_yaml(text)
output.print_table(["text"], [[text["text"]]])
"""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    document, as_yaml, _, cell = shown.stdout.decode("ascii").splitlines()
    assert json.loads(document) == yaml.safe_load(as_yaml) == {"text": "Größe 😀"}
    assert cell.strip() == r"Gr\u00f6\u00dfe \ud83d\ude00"


@pytest.mark.parametrize("arguments", ["--version", "--help", "tpic"])
def test_a_closed_output_is_silence(arguments: str) -> None:
    """Regression: there was a traceback; and a file that is opened later must not become the standard output."""
    program = f"""
import os, sys
from headrace.cli.app import main
sys.argv = ["headrace", {arguments!r}]
try:
    main()
finally:
    first = os.open(os.devnull, os.O_RDONLY)
    assert first > 2, first
"""
    command = ["bash", "-c", 'exec "$0" "$@" >&-', sys.executable, "-c", program]
    ended = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (2 if arguments == "tpic" else 0, False)


def test_a_client_does_not_import_the_server() -> None:
    """The import would take longer than the command itself."""
    program = """
import sys
from contextlib import suppress
from headrace.cli.app import main
sys.argv = ["headrace", "poll", "--help"]
with suppress(SystemExit):
    main()
servers = ("headrace_gateway", "headrace_node", "headrace_embedded", "grpc", "pydantic", "rich")
print(*(name for name in sys.modules if name.startswith(servers)))
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    "words", ["connect", "connect --help", "connect run pipeline.toml", "up --connectors pipeline.toml"]
)
def test_a_command_of_a_package_that_is_missing_says_what_to_install(words: str) -> None:
    with mock.patch("importlib.metadata.entry_points", return_value=()):
        refused = headrace(*words.split())
        assert "\n  connect " in headrace("--help").stdout
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: headrace ")
    assert "headrace_connectors, which is not installed here: install the distribution headrace" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_list_of_commands_reads_nothing_of_what_is_installed() -> None:
    """Reading it would take as long as the list itself."""
    program = """
import sys
from contextlib import suppress
from headrace.cli.app import main
sys.argv = ["headrace", "--help"]
with suppress(SystemExit):
    main()
print(*(name for name in sys.modules if name.startswith(("headrace_connectors", "importlib.metadata"))))
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = headrace("completion", shell).stdout
    assert "_HEADRACE_COMPLETE" in script


def test_completion_completes() -> None:
    variables = {"COMP_WORDS": "headrace st", "COMP_CWORD": "1", "_HEADRACE_COMPLETE": "bash_complete"}
    assert headrace(environment=variables).stdout.split() == ["plain,stream", "plain,stats"]
    variables |= {"COMP_WORDS": "headrace group ", "COMP_CWORD": "2"}
    commands = ["create", "list", "show", "lag", "reset", "delete"]
    assert headrace(environment=variables).stdout.split() == [f"plain,{name}" for name in commands]


def test_completion_without_a_server_is_silent() -> None:
    variables = {"COMP_WORDS": "headrace topic list ", "COMP_CWORD": "3", "_HEADRACE_COMPLETE": "bash_complete"}
    variables |= {"HEADRACE_SERVER": "127.0.0.1:1", "HEADRACE_USERNAME": "u", "HEADRACE_PASSWORD": "p"}
    result = headrace(environment=variables)
    assert (result.stdout.strip(), result.stderr) == ("", "")


def test_wrong_settings_end_with_one_message_and_status_1(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[tcp]\nport = 1\ndurability = 'os'\n")
    result = headrace("config", "check", "--config", str(file), environment={"HEADRACE_DURABILITI": "os"})
    assert result.returncode == 1
    assert "tcp.port: unknown setting" in result.stderr
    assert "did you mean HEADRACE_DURABILITY?" in result.stderr
    assert "Traceback" not in result.stderr


def test_config_show_leaves_secrets_out() -> None:
    variables = {"HEADRACE_ROOT_USERNAME": "root", "HEADRACE_ROOT_PASSWORD": "hunter22"}
    shown = headrace("config", "show", environment=variables).stdout
    assert 'username = "root"  # environment HEADRACE_ROOT_USERNAME' in shown
    assert "hunter22" not in shown


def test_a_server_that_is_not_there() -> None:
    result = headrace("ping", "--server", "127.0.0.1:1")
    assert result.returncode == 1
    assert "error:" in result.stderr
    assert "Traceback" not in result.stderr


def headrace(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    result = command_line.run(*arguments, environment={"PATH": "/usr/bin:/bin"} | (environment or {}))
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout.decode(), result.stderr.decode())


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def test_every_command_and_option_has_help() -> None:
    silent = [
        (path, parameter.opts)
        for path, command in commands(program)
        for parameter in command.params
        if not command.help or (isinstance(parameter, click.Option) and not parameter.help)
    ]
    assert silent == []


def test_whatever_prints_data_has_every_form() -> None:
    """Lists and descriptions of objects are printed for users and for programs."""
    for path, command in commands(program):
        if path[-1] in {"list", "show", "lag", "stats", "audit", "doctor", "status", "members", "nodes", "log"}:
            options = {name for parameter in command.params for name in parameter.opts}
            assert path[0] == "config" or {"--output", "--json"} <= options, path
