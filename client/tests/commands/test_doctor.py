"""`headrace doctor`: a verdict for each check, with what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import jsonschema_rs
import pytest
from tests import command_line
from tests.command_line.shell import Shell

from headrace.cli import schemas
from headrace.cli.diagnosis import machine, ports
from headrace_core import build_profile


def test_a_server_is_examined(headrace: Shell, tmp_path: Path) -> None:
    # A pause between the answer of the server and the look at the own clock makes it a wrong one: ask again then.
    for _ in range(20):
        result = headrace.run("doctor", "--data", str(tmp_path / "new"), "--json")
        found = json.loads(result.stdout)
        verdicts = {check["check"]: check["verdict"] for check in found}
        if verdicts.get("clock of the server") == "ok":
            break
    jsonschema_rs.validate(schemas.schema("doctor"), found)
    assert verdicts["headrace"] == verdicts["python"] == verdicts["server"] == verdicts["login"] == "ok"
    assert verdicts["clock of the server"] == "ok"
    assert all(check["advice"] for check in found if check["verdict"] != "ok")
    assert result.returncode == ("fail" in verdicts.values())
    text = headrace.run("doctor", "--data", str(tmp_path)).stdout.decode()
    assert "\nok    python" in text


@pytest.mark.parametrize(
    ("arguments", "variables", "line"),
    [
        (
            ("-s", "127.0.0.1:1"),
            {},
            {
                "check": "server",
                "verdict": "fail",
                "found": "no server listens at 127.0.0.1:1",
                "advice": "is it running? `headrace up` starts one",
            },
        ),
        (
            (),
            {"HEADRACE_USERNAME": "ann", "HEADRACE_PASSWORD": "w"},
            {
                "check": "login",
                "verdict": "fail",
                "found": "the server does not know user 'ann' with this password",
                "advice": "see docs/command-line.md",
            },
        ),
    ],
)
def test_a_failure_is_status_1(
    headrace: Shell, arguments: tuple[str, ...], variables: dict[str, str], line: dict[str, str]
) -> None:
    result = command_line.run("doctor", "--json", *arguments, environment=headrace.environment | variables)
    assert json.loads(result.stdout)[-1] == line
    assert result.returncode == 1


def test_without_a_server() -> None:
    result = command_line.run("doctor", "--no-server", "--json", environment={})
    assert "server" not in {check["check"] for check in json.loads(result.stdout)}


def test_the_profile_of_the_native_module() -> None:
    result = command_line.run("doctor", "--no-server", "--json", environment={})
    found = {check["check"]: check["found"] for check in json.loads(result.stdout)}
    assert found["native module"] == machine.native_module(build_profile)["found"]
    texts = {profile: machine.native_module(profile)["found"] for profile in ("dev", "release")}
    assert texts["release"] == "release build"
    assert texts["dev"].startswith("development build")


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        used = ports.port(number, "tcp", "HTTP")
    assert (used["verdict"], used["found"]) == ("warn", "tcp, HTTP: Address already in use")
    assert f"has it (process {os.getpid()}): a second server needs other ports" in used["advice"]
    assert ports.port(number, "tcp", "HTTP") == machine.ok(f"port {number}", "tcp, HTTP: free")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        assert ports.holder(datagrams.getsockname()[1], "udp") == os.getpid()


def test_the_ports_of_the_examined_server_are_as_they_should_be(
    headrace: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No warning beside a server that is well; that of another program stays."""
    number = int(headrace.environment["HEADRACE_SERVER"].rpartition(":")[2])
    listens = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", listens], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        monkeypatch.setattr(ports, "PORTS", ((number, "tcp", "the binary protocol"), (taken, "tcp", "HTTP")))
        result = headrace.run("doctor", "--data", str(tmp_path / "new"), "--json")
        alone = headrace.run("doctor", "--data", str(tmp_path / "new"), "--json", "--no-server")
        other.communicate(b"\n")
    found = {check["check"]: (check["verdict"], check["found"]) for check in json.loads(result.stdout)}
    assert found[f"port {number}"] == ("ok", "tcp, the binary protocol: this server has it")
    assert found[f"port {taken}"] == ("warn", "tcp, HTTP: Address already in use")
    verdicts = {check["check"]: check["verdict"] for check in json.loads(alone.stdout)}
    assert verdicts[f"port {number}"] == "warn"


def test_kernels() -> None:
    verdicts = {release: machine.kernel(release)["verdict"] for release in ("6.1.0-1-amd64", "5.15.0", "10.0.1-rc1")}
    assert verdicts == {"6.1.0-1-amd64": "ok", "5.15.0": "warn", "10.0.1-rc1": "ok"}


def test_disks(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n"
        f"2 1 0:2 / {tmp_path} rw shared:1 - tmpfs tmpfs rw\n"
        f"3 1 0:3 / {tmp_path}-other rw - nfs4 host:/ rw\n"
    )
    assert machine.file_system_type(tmp_path, mounts) == "tmpfs"
    assert machine.file_system_type(Path("/"), mounts) == "ext4"
    verdicts = {kind: machine.file_system(tmp_path, kind)["verdict"] for kind in ("ext4", "tmpfs", "nfs4", "overlay")}
    assert verdicts == {"ext4": "ok", "tmpfs": "warn", "nfs4": "warn", "overlay": "warn"}
    space = [machine.disk_space(tmp_path, free, 100 << 30)["verdict"] for free in (1 << 20, 5 << 30, 50 << 30)]
    assert space == ["fail", "warn", "ok"]
    assert machine.existing(tmp_path / "a" / "b") == tmp_path


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for soft in (64 << 10, 64 << 20, -1):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        found.append(machine.limit("locked memory", 0, 8 << 20, "ulimit -l", is_bytes=True)["verdict"])
    assert found == ["warn", "ok", "ok"]


def test_damaged_files_and_those_set_aside_are_named(headrace: Shell, tmp_path: Path) -> None:
    def found() -> dict[str, tuple[str, str]]:
        result = headrace.run("doctor", "--data", str(tmp_path), "--no-server", "--json")
        checks = json.loads(result.stdout)
        return {check["check"]: (check["verdict"], check["found"]) for check in checks}

    assert "set aside" not in found()
    partition = tmp_path / "streams/1/topics/2/partitions/3"
    partition.mkdir(parents=True)
    assert found()["set aside"] == ("ok", "nothing")
    assert found()["damaged files"][0] == "ok"
    kept = [
        f"{20 * '0'}.cut-1",
        f"{20 * '0'}.foreign-2",
        f"{32 * 'a'}.stage-damaged",
    ]
    for name in [*kept, f"{20 * '0'}.log", "offsets"]:
        (partition / name).touch()
    (tmp_path / "streams/set-aside/1-2-4.0").mkdir(parents=True)
    verdict, text = found()["set aside"]
    places = ["streams/set-aside/1-2-4.0", *(f"streams/1/topics/2/partitions/3/{name}" for name in kept)]
    assert (verdict, text) == ("warn", "; ".join(places))
    damage = [{"path": f"streams/{number}.log", "explanation": "messages are damaged"} for number in range(7)]
    (tmp_path / "scrub.json").write_text(json.dumps({"damage": damage}))
    verdict, text = found()["damaged files"]
    assert verdict == "fail"
    assert text.endswith("streams/4.log: messages are damaged; and 2 more")
    (tmp_path / "scrub.json").write_text("{")
    assert found()["damaged files"][0] == "warn"
