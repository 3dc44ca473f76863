"""USE-2: what can be set for the cluster holds for everything that is done with it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.containers.cluster import COMPOSE


def _after(file: Path | str, show: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Source the settings script with this file and print an expression."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'source "{COMPOSE}/settings.bash"; echo "{show}"'],
        env=kept | {"HEADRACE_ENV_FILE": str(file)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_lines_of_the_file_are_variables(tmp_path: Path) -> None:
    file = tmp_path / "blue.env"
    # The last line has no line feed.
    file.write_text("# ours\n\nHEADRACE_PROJECT=blue # as the sky\r\n HEADRACE_TAG=\"a b\"\nHEADRACE_BASE='x=y'")
    shown = _after(file, "$HEADRACE_PROJECT|$HEADRACE_TAG|$HEADRACE_BASE")
    assert shown.stdout == "blue|a b|x=y\n", shown.stderr


def test_a_variable_that_is_set_goes_before_its_line(tmp_path: Path) -> None:
    file = tmp_path / "blue.env"
    file.write_text("HEADRACE_PROJECT=blue\n")
    assert _after(file, "$HEADRACE_PROJECT", HEADRACE_PROJECT="green").stdout == "green\n"


def test_a_file_beside_the_scripts_is_found_from_anywhere() -> None:
    assert _after("fallback.env", "$HEADRACE_SECCOMP").stdout == "no-io-uring.json\n"


def test_scripts_that_call_each_other_read_one_file(tmp_path: Path) -> None:
    """Scripts find the file even if they change the directory first."""
    (tmp_path / "fallback.env").write_text("HEADRACE_TAG=ours\n")
    read = f'source "{COMPOSE}/settings.bash"; cd "{COMPOSE}"; source ./settings.bash'
    script = read + '; echo "$HEADRACE_TAG${HEADRACE_SECCOMP:-}"'
    shown = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        | {"HEADRACE_ENV_FILE": "fallback.env"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stdout == "ours\n", shown.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        ("HEADRACE_TAG=1\nHEADRACE PROJECT=2\n", "line 2: not NAME=VALUE: HEADRACE PROJECT=2"),
        ("HEADRACE_TAG=1\n\nHEADRACE_TCP_PORTS=2\n", "line 3: there is no setting HEADRACE_TCP_PORTS; there are"),
        ("HEDRACE_TAG=1\n", "line 1: there is no setting HEDRACE_TAG"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "blue.env"
    if content is not None:
        file.write_text(content)
    refused = _after(file, "not reached")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert message in refused.stderr


def test_every_setting_that_is_described_may_stand_in_the_file(tmp_path: Path) -> None:
    """The file also accepts settings of the programs that the scripts run."""
    table = (COMPOSE / "README.md").read_text().partition("## What can be set")[2].partition("\n## ")[0]
    names = set(re.findall(r"^\| .*?`([A-Z_]+)`", table, re.MULTILINE))
    names |= {f"HEADRACE_{part}_PORT" for part in ("WEBSOCKET", "HTTP", "GRPC", "PROMETHEUS")}
    assert len(names) > 10
    file = tmp_path / "all.env"
    file.write_text("".join(f"{name}=1\n" for name in [*sorted(names), "DOCKER_HOST"]))
    shown = _after(file, "$DOCKER_HOST")
    assert (shown.returncode, shown.stdout) == (0, "1\n"), shown.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"HEADRACE_LISTEN": "0.0.0.0"}, "HEADRACE_LISTEN is 0.0.0.0: set HEADRACE_ADVERTISED"),
        ({"HEADRACE_ADVERTISED": "broker"}, "HEADRACE_ADVERTISED is broker: it must be an IP address"),
        ({"HEADRACE_ADVERTISED": "fd00::1"}, "HEADRACE_ADVERTISED is fd00::1: it must be an IP address"),
    ],
)
def test_who_publishes_ports_says_where_clients_find_them(settings: dict[str, str], message: str) -> None:
    refused = subprocess.run(
        [COMPOSE / "cluster", "up"],
        env=os.environ | {"HEADRACE_PROJECT": "headrace-refused"} | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert message in refused.stderr
