"""Parsing of the command line, without a server."""

import datetime as dt
import subprocess
import sys
from pathlib import Path

import command_line
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.commands.poll import Start, parse_start
from headrace.cli.commands.send import _batches
from headrace.cli.output import size
from headrace.connection import identifier

RUNNER = CliRunner()


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
    assert parse_start(text) == start


def test_a_moment_without_zone_is_local() -> None:
    moment = dt.datetime(2026, 1, 31, 12).astimezone()
    assert parse_start("2026-01-31T12:00").value == int(moment.timestamp()) * 1_000_000


def test_nonsense_is_no_start() -> None:
    with pytest.raises(typer.BadParameter, match="not a start position"):
        parse_start("yesterday")


@given(st.lists(st.binary(max_size=400_000 // 1000)), st.integers(1, 50))
def test_batches_keep_order_and_limits(payloads: list[bytes], messages_max: int) -> None:
    batches = list(_batches(payloads, messages_max))
    assert [payload for batch in batches for payload in batch] == [payload for payload in payloads if payload]
    assert all(0 < len(batch) <= messages_max for batch in batches)


def test_a_batch_stays_near_a_megabyte() -> None:
    batches = list(_batches([b"x" * 400_000] * 5 + [b"y" * 3_000_000, b"z"], 1000))
    assert [len(batch) for batch in batches] == [2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "expected"), [("7", 7), ("orders", "orders"), ("7a", "7a"), ("\u0667", "\u0667"), ("-1", "-1")]
)
def test_identifiers(text: str, expected: int | str) -> None:
    assert identifier(text) == expected


def test_sizes_for_people() -> None:
    assert [size(value) for value in (0, 999, 1000, 1_234_567, 2**64 - 1)] == [
        "0 B",
        "999 B",
        "1 KB",
        "1.23 MB",
        "unlimited",
    ]


def test_version_and_help() -> None:
    assert RUNNER.invoke(app, ["--version"]).output.startswith("headrace 0.")
    listed = RUNNER.invoke(app, ["--help"]).output
    for command in ("up", "ping", "stream", "topic", "group", "send", "poll", "stats", "bench", "config", "completion"):
        assert command in listed


def test_a_mistyped_command_gets_a_suggestion() -> None:
    refused = headrace("tpic")
    assert refused.returncode == 2
    assert "Did you mean 'topic'?" in refused.stderr


def test_a_client_does_not_import_the_server() -> None:
    """The import would take longer than the command itself."""
    program = """
import sys
from contextlib import suppress
from headrace.cli.app import main
sys.argv = ["headrace", "poll", "--help"]
with suppress(SystemExit):
    main()
servers = ("headrace_gateway", "headrace_node", "headrace.embedded.s")
print(*(name for name in sys.modules if name.startswith(servers)))
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    script = headrace("completion", shell).stdout
    assert "_HEADRACE_COMPLETE" in script


def test_completion_completes() -> None:
    variables = {"COMP_WORDS": "headrace st", "COMP_CWORD": "1", "_HEADRACE_COMPLETE": "complete_bash"}
    assert headrace(environment=variables).stdout.split() == ["stream", "stats"]
    variables |= {"COMP_WORDS": "headrace group ", "COMP_CWORD": "2"}
    assert headrace(environment=variables).stdout.split() == ["create", "list", "show", "lag", "delete"]


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
