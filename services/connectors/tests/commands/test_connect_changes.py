"""`headrace connect apply`, `versions`, `activate` and `rollback`: configurations of connectors that run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line.schemas import validate
from tests.command_line.shell import Shell
from tests.connectors.process import until
from tests.ports import free_port

from headrace_embedded import Server

MADE = '[sources.made]\nplugin = "random"\nstream = "changes"\ntopic = "made"\n[sources.made.settings]\nseed = {}\n'
SCREEN = '[sinks.screen]\nplugin = "stdout"\nstream = "changes"\ntopic = "made"\n'
MAPPING = '[mappings.events]\npaid = { stream = "changes", topic = "paid" }\n'


@pytest.fixture
def options(headrace: Shell, tmp_path: Path, server: Server) -> Iterator[tuple[str, ...]]:
    """Options for connectors that run and accept changes."""
    port = free_port()
    file = tmp_path / "running.toml"
    file.write_text(
        f'[server]\nurl = "headrace://{server.address}"\nusername = "{server.username}"\n'
        f'password = "{server.password}"\n[http]\naddress = "127.0.0.1:{port}"\ntoken = "secret"\n'
        "[http.configuration]\nenabled = true\n" + MADE.format(1)
    )
    process = headrace.start("connect", "run", str(file))
    options = ("--url", f"http://127.0.0.1:{port}", "--token", "secret")
    try:
        until(lambda: process.poll() is not None or headrace.run("connect", "status", *options).returncode == 0)
        yield options
    finally:
        process.kill()
        process.communicate()


def states(headrace: Shell, options: tuple[str, ...]) -> dict[str, str]:
    connectors = json.loads(headrace("connect", "status", *options, "--json"))
    validate("connect-status", connectors)
    return {one["key"]: one["state"] for one in connectors}


def test_a_file_is_applied_and_taken_back(headrace: Shell, options: tuple[str, ...], tmp_path: Path) -> None:
    """CON-31: what differs is changed, what is the same is not, and a version can be put into effect again."""
    file = tmp_path / "changed.toml"
    file.write_text(MADE.format(2) + SCREEN + MAPPING)
    planned = headrace("connect", "apply", str(file), "--dry-run", *options)
    assert planned.count("to be created") == 2
    assert planned.count("to be changed") == 1
    applied = json.loads(headrace("connect", "apply", str(file), "-m", "more", *options, "--json"))
    validate("connect-apply", applied)
    assert [(one["kind"], one["key"], one["action"], one["version"]) for one in applied] == [
        ("mapping", "events", "created", 1),
        ("source", "made", "changed", 2),
        ("sink", "screen", "created", 1),
    ]
    assert set(states(headrace, options)) == {"made", "screen"}
    again = json.loads(headrace("connect", "apply", str(file), *options, "--json"))
    assert {one["action"] for one in again} == {"unchanged"}

    versions = json.loads(headrace("connect", "versions", "made", *options, "--json"))
    validate("connect-versions", versions)
    assert [(one["number"], one["comment"], one["origin"]) for one in versions["versions"]] == [
        (2, "more", "http"),
        (1, "from running.toml", "file"),
    ]
    assert "active" in headrace("connect", "versions", "made", *options)
    assert headrace("connect", "rollback", "made", *options) == "made: version 1 is active\n"
    back = json.loads(headrace("connect", "activate", "made", "2", *options, "--json"))
    validate("connect-activate", back)
    assert (back["active"], back["epoch"]) == (2, 4)
    mappings = json.loads(headrace("connect", "versions", "events", "--mapping", *options, "--json"))
    assert mappings["versions"][0]["definition"] == {"paid": {"stream": "changes", "topic": "paid"}}
    missing = headrace.run("connect", "activate", "made", "9", *options)
    assert "made has no version 9; there are: 1 to 2" in missing.stderr.decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[sources]]\nplugin = "random"\n', "sources is not a table: write [sources.NAME]"),
        ('[[sinks.screen]]\nplugin = "stdout"\n', "screen is not a table: write [sinks.screen]"),
        ("mappings = 1\n", "mappings is not a table: write [mappings.NAME]"),
    ],
)
def test_a_list_is_no_table(headrace: Shell, tmp_path: Path, text: str, message: str) -> None:
    """The file is read before there is a connection."""
    file = tmp_path / "lists.toml"
    file.write_text(text)
    refused = headrace.run("connect", "apply", str(file), "--url", "http://127.0.0.1:1")
    assert (refused.returncode, refused.stderr.decode()) == (2, f"error: {file}: {message}\n")


def test_a_file_with_mistakes_changes_nothing(headrace: Shell, options: tuple[str, ...], tmp_path: Path) -> None:
    """CON-31: all mistakes are reported before anything is changed."""
    file = tmp_path / "wrong.toml"
    file.write_text(MADE.format(3) + 'sead = 1\n[sinks.other]\nplugin = "stdot"\nstream = "s"\ntopic = "t"\n')
    refused = headrace.run("connect", "apply", str(file), *options)
    message = refused.stderr.decode()
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert "sources.made.settings.sead: unknown setting (did you mean seed?)" in message
    assert "sinks.other.plugin" in message
    assert "nothing was changed: correct" in message
    assert json.loads(headrace("connect", "versions", "made", *options, "--json"))["active"] == 1
    absent = headrace.run("connect", "apply", str(tmp_path / "absent.toml"), *options)
    assert (absent.returncode, "cannot be read" in absent.stderr.decode()) == (2, True)
