"""CON-52: `headrace up --connectors`: server and connectors in one process."""

import contextlib
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.process import until
from tests.ports import free_port
from tests.up_process import ENVIRONMENT, PROGRAM, SMALL, up

import headrace

ROOT = {"HEADRACE_ROOT_USERNAME": "root", "HEADRACE_ROOT_PASSWORD": "hunter22"}
LOGIN = '[server]\nusername = "root"\npassword = "${HEADRACE_ROOT_PASSWORD}"\n'
SOURCE = (
    '[http]\naddress = "127.0.0.1:0"\n[sources.orders]\nplugin = "random"\nstream = "shop"\ntopic = "orders"\n'
    '[sources.orders.settings]\ninterval = "10 ms"\n'
)


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.toml"
    file.write_text(LOGIN + SOURCE, encoding="utf-8")
    return file


def status(url: str) -> Any:
    """Status of the only connector."""
    with urllib.request.urlopen(f"{url}/connectors", timeout=60) as answer:
        (found,) = json.load(answer)
        return found


def failed(data: Path, pipeline: Path, **variables: str) -> tuple[int, str, str]:
    """Run a server that ends by itself; return its exit status and outputs."""
    result = subprocess.run(
        [PROGRAM, "up", "--data", data, "--port", "0", "--connectors", pipeline],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT | SMALL | variables,
    )
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout, " ".join(result.stderr.split())


def test_connectors_write_to_the_server_and_stop_before_it(tmp_path: Path, pipeline: Path) -> None:
    """Without server.url they find the server; at the end they have stopped while it was there."""
    with up(tmp_path / "data", "--connectors", str(pipeline), **ROOT) as (process, printed):
        assert process.stdout is not None
        shown = ""
        while not shown.startswith("  connectors"):
            shown = process.stdout.readline()
            assert shown, printed
        assert shown.split()[1] == "orders;"
        address = next(line.split()[1] for line in printed.splitlines() if line.startswith("  tcp"))
        until(lambda: status(shown.split()[-1])["records_count"] > 0)
        assert status(shown.split()[-1])["state"] == "running"
        with headrace.connect(f"headrace://root:hunter22@{address}") as client:
            assert list(client.read("shop", "orders"))
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 0, rest
    assert rest.splitlines()[-1] == "stopped"
    assert "orders: stopped" in rest
    assert "attempt" not in rest
    assert (tmp_path / "local_connectors" / "orders.state.json").exists()


def test_users_of_the_server_see_the_connectors(tmp_path: Path, pipeline: Path) -> None:
    """The console and the HTTP API show them without another setting; the token of the file stays in the server."""
    address = f"127.0.0.1:{free_port()}"
    text = pipeline.read_text(encoding="utf-8").replace("127.0.0.1:0", address)
    pipeline.write_text(text.replace("[http]\n", '[http]\ntoken = "hidden-token"\n'), encoding="utf-8")
    with up(tmp_path / "data", "--connectors", str(pipeline), **ROOT) as (_, printed):
        url = next(line.split()[1] for line in printed.splitlines() if line.startswith("  http"))

        def asked(path: str, body: dict[str, str] | None = None, **headers: str) -> Any:
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **headers})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        login = asked("/users/login", {"username": "root", "password": "hunter22"})
        bearer = f"Bearer {login['access_token']['token']}"
        until(lambda: has_connectors(lambda: asked("/connectors", Authorization=bearer)))
        config = (tmp_path / "data" / "runtime" / "current_config.toml").read_text(encoding="utf-8")
        assert f'url = "http://{address}"' in config
        assert "hidden-token" not in config + printed


def has_connectors(ask: Callable[[], Any]) -> bool:
    """Return True if the source is shown; the connectors start a moment after the server."""
    try:
        return [one["key"] for one in ask()] == ["orders"]
    except urllib.error.HTTPError:
        return False


def test_mistakes_of_the_file_are_reported_before_anything_starts(tmp_path: Path, pipeline: Path) -> None:
    """No data directory is made."""
    pipeline.write_text(SOURCE + "typo = 1\n", encoding="utf-8")
    status, printed, errors = failed(tmp_path / "data", pipeline)
    assert status == 1
    assert printed == ""
    assert "sources.orders.settings.typo: unknown setting" in errors
    assert not (tmp_path / "data").exists()


def test_a_file_without_a_login_ends_the_server(tmp_path: Path, pipeline: Path) -> None:
    """The generated password was shown before, and the message says where it belongs."""
    pipeline.write_text(SOURCE, encoding="utf-8")
    status, printed, errors = failed(tmp_path / "data", pipeline)
    assert status == 1
    assert "password" in printed
    assert "set server.username and server.password_file" in errors
    assert str(pipeline) in errors


def test_an_encrypted_listener_needs_a_url(tmp_path: Path, pipeline: Path) -> None:
    """The authority that the connectors trust is not known to the server."""
    status, _, errors = failed(tmp_path / "data", pipeline, HEADRACE_TCP_ENABLED="false", **ROOT)
    assert status == 1
    assert "set server.url, since the server's TCP listener is not enabled" in errors


def test_the_server_offers_them_to_its_users(tmp_path: Path, pipeline: Path) -> None:
    """CON-34: address and token are those of the pipeline file, and the token is shown nowhere."""
    text = pipeline.read_text(encoding="utf-8").replace("127.0.0.1:0", f"127.0.0.1:{free_port()}")
    pipeline.write_text(
        text.replace("[sources.orders]\n", 'token = "of-them"\n[sources.orders]\n', 1), encoding="utf-8"
    )
    with up(tmp_path / "data", "--connectors", str(pipeline), **ROOT) as (process, printed):
        url = next(line.split()[1] for line in printed.splitlines() if line.startswith("  http"))

        def ask(path: str, body: Any = None, token: str = "") -> Any:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
            data = None if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=60) as answer:
                return json.load(answer)

        login = ask("/users/login", {"username": "root", "password": "hunter22"})["access_token"]["token"]

        def connectors() -> Any:
            with contextlib.suppress(urllib.error.HTTPError):
                # 502 until they listen.
                return ask("/connectors", token=login)
            return None

        (found,) = until(connectors)
        assert (found["key"], found["plugin"]) == ("orders", "random")
        settings = {one["name"]: one for one in ask("/settings", token=login)}
        assert settings["http.connectors.url"]["origin"] == "option --connectors"
        assert "of-them" not in json.dumps(settings)
        process.kill()
