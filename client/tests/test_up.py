"""`headrace up` as a process: output, refusals and exit."""

import re
import signal
import socket
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
from tests.up_process import ENVIRONMENT, PROGRAM, SMALL, up

from headrace.cli.commands.operating.up import moved
from headrace.connection import Credentials, connected
from headrace_embedded.config import load_config


def refused(data: Path, *options: str, **variables: str) -> str:
    return " ".join(ended(data, *options, **variables).stderr.split())


def ended(data: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a server that cannot start."""
    result = subprocess.run(
        [PROGRAM, "up", "--data", data, *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT | SMALL | variables,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def field(printed: str, name: str) -> str:
    match = re.search(rf"^  {name} +(\S+)", printed, flags=re.MULTILINE)
    assert match, printed
    return match[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with up(tmp_path / "data", "--with-default-root-credentials") as (process, printed):
        address = field(printed, "tcp")
        assert field(printed, "data") == str(tmp_path / "data")
        assert field(printed, "driver") in {"uring", "poll"}
        assert field(printed, "console") == f"{field(printed, 'http')}/"
        assert field(printed, "root user") == "iggy"
        with connected(address, Credentials("iggy", "iggy")) as client:
            client.ping()
        process.send_signal(number)
        rest, _ = process.communicate(timeout=120)
        assert process.returncode == 0, rest
        assert rest.splitlines()[-1] == "stopped"


@pytest.mark.long
def test_a_generated_password_is_shown_once(tmp_path: Path) -> None:
    """CTL-9: generated once, shown once."""
    with up(tmp_path) as (process, printed):
        credentials = Credentials(field(printed, "root user"), field(printed, "password"))
        with connected(field(printed, "tcp"), credentials):
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
    with up(tmp_path) as (_, printed):
        assert "\n  password" not in printed
        with connected(field(printed, "tcp"), credentials) as client:
            client.ping()


@pytest.mark.long(but=1)
@pytest.mark.parametrize("setting", ["tcp.address", "pipelines.address", "grpc.tls.cert_file"])
def test_a_start_that_is_refused_keeps_no_password_to_itself(tmp_path: Path, setting: str) -> None:
    """Some starts fail after the user was created: the next one does not create it again."""
    variables = {"HEADRACE_TCP_ADDRESS": "127.0.0.1:0"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        if setting.endswith("address"):
            variables[f"HEADRACE_{setting.replace('.', '_').upper()}"] = f"127.0.0.1:{taken.getsockname()[1]}"
        else:
            variables |= {"HEADRACE_GRPC_TLS_ENABLED": "true"}
            variables |= {f"HEADRACE_GRPC_TLS_{name}_FILE": __file__ for name in ("CERT", "KEY")}
        result = ended(tmp_path / "data", **variables)
    assert setting.partition(".")[0] in result.stderr
    with up(tmp_path / "data") as (_, printed):
        both = result.stdout + printed
        assert len(re.findall(r"^  password ", both, flags=re.MULTILINE)) == 1
        credentials = Credentials(field(both, "root user"), field(both, "password"))
        with connected(field(printed, "tcp"), credentials) as client:
            client.ping()


def test_the_effective_configuration_is_beside_the_data(tmp_path: Path) -> None:
    root = {"HEADRACE_ROOT_USERNAME": "root", "HEADRACE_ROOT_PASSWORD": "hunter22"}
    with up(tmp_path, "--durability", "memory", **root) as (_, printed):
        text = (tmp_path / "runtime/current_config.toml").read_text()
        config = tomllib.loads(text)
        assert config["tcp"]["address"] == field(printed, "tcp")
        assert config["durability"] == "memory"
        assert "hunter22" not in text + printed
        with connected(field(printed, "tcp"), Credentials("root", "hunter22")) as client:
            assert client.streams() == []


def test_the_fallback_driver_can_be_chosen_and_is_named(tmp_path: Path) -> None:
    """SHARD-10: a slower driver is reported at startup."""
    with up(tmp_path, "--driver", "poll") as (_, printed):
        assert field(printed, "driver") == "poll"


@pytest.mark.long
def test_default_credentials_for_a_directory_that_has_a_root_user_are_refused(tmp_path: Path) -> None:
    with up(tmp_path) as (process, printed):
        assert field(printed, "password")
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    with up(tmp_path, "--with-default-root-credentials") as (_, printed):
        assert "root user already exists; its password is unchanged" in " ".join(printed.split())


@pytest.mark.long
def test_fresh_starts_from_nothing(tmp_path: Path) -> None:
    with up(tmp_path, "--with-default-root-credentials") as (process, printed):
        with connected(field(printed, "tcp"), Credentials("iggy", "iggy")) as client:
            client.create_stream("old")
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    with (
        up(tmp_path, "--with-default-root-credentials", "--fresh") as (_, printed),
        connected(field(printed, "tcp"), Credentials("iggy", "iggy")) as client,
    ):
        assert client.streams() == []


def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    with up(tmp_path) as (process, _):
        assert f"in use by another server (process {process.pid})" in refused(tmp_path, "--port", "0")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("setting", ["tcp.address", "http.address", "grpc.address", "websocket.address"])
def test_an_address_that_is_taken(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        variable = f"HEADRACE_{setting.replace('.', '_').upper()}"
        said = refused(tmp_path, **{"HEADRACE_TCP_ADDRESS": "127.0.0.1:0", variable: address})
        assert said.endswith(
            f"error: {setting} = {address}: another program listens there, or this machine does not have the address "
            f"(`headrace doctor` checks ports); stop it, set {variable} to another address, or move all listeners with "
            "--port"
        )


def test_a_port_moves_all_listeners_without_an_address() -> None:
    loaded = load_config(None, {"HEADRACE_TCP_ADDRESS": "127.0.0.2:1", "HEADRACE_GRPC_ADDRESS": "127.0.0.1:9999"})
    assert moved(loaded, 8190) == {
        "tcp.address": "127.0.0.2:8190",
        "http.address": "127.0.0.1:3100",
        "quic.address": "127.0.0.1:8180",
        "websocket.address": "127.0.0.1:8192",
        "pipelines.address": "127.0.0.1:8201",
    }
    assert set(moved(loaded, 0).values()) == {"127.0.0.2:0", "127.0.0.1:0"}
    with pytest.raises(click.UsageError, match=r"grpc.address would get port 65539: set HEADRACE_GRPC"):
        moved(load_config(None, {"HEADRACE_HTTP_ADDRESS": "127.0.0.1:1"}), 65535)


def test_a_directory_that_cannot_be_made() -> None:
    assert refused(Path("/proc/none"), "--port", "0").endswith("; choose another one with --data")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HEADRACE_TCP_ADDRES": "127.0.0.1:0"}, "did you mean HEADRACE_TCP_ADDRESS?"),
        ({"HEADRACE_SYSTEM_SHARDING_CPU_ALLOCATION": "9999"}, "9999"),
        ({"HEADRACE_ROOT_USERNAME": "alone"}, "username and password are given together"),
    ],
)
def test_wrong_settings_stop_the_start(tmp_path: Path, variables: dict[str, str], message: str) -> None:
    assert message in refused(tmp_path / "data", "--port", "0", **variables)


def test_variables_of_iggy_without_effect_are_named_at_the_start(tmp_path: Path) -> None:
    """Variables that map to a setting take effect (GW-1)."""
    variables = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true", "IGGY_CLUSTER_NAME": "moved-over"}
    with up(tmp_path, **variables) as (process, printed):
        assert tomllib.loads((tmp_path / "runtime/current_config.toml").read_text())["cluster"]["name"] == "moved-over"
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=120)
    assert (printed + rest).count("IGGY_SYSTEM_ENCRYPTION_ENABLED has no effect") == 1
    assert "IGGY_CLUSTER_NAME" not in printed + rest
