"""`headrace config check --service`: errors in the settings of a service, with place and remedy (USE-2)."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest
import trustme
from tests.command_line import run

from headrace_embedded.service_settings import SERVICES, Service

COMPOSE = Path(__file__).parents[2] / "compose/config"


def headrace(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command with output of unlimited width."""
    done = run(*arguments, environment={"COLUMNS": "1000"} | (environment or {}))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_names_of_services_are_completed() -> None:
    words = "headrace config check --service "
    variables = {"COMP_WORDS": words, "COMP_CWORD": "4", "_HEADRACE_COMPLETE": "bash_complete"}
    assert headrace(environment=variables).stdout.split() == [f"plain,{service}" for service in Service]


@pytest.mark.parametrize("service", Service)
def test_the_defaults_of_every_service_are_right(service: Service) -> None:
    checked = headrace("config", "check", "--service", service)
    assert checked.returncode == 0, checked.stderr
    assert "the settings are valid" in checked.stdout
    shown = headrace("config", "show", "--service", service).stdout
    assert tomllib.loads(shown)
    assert json.loads(headrace("config", "schema", "--service", service).stdout)["type"] == "object"
    assert f"`{SERVICES[service].prefix}_" in headrace("config", "reference", "--service", service).stdout


def test_everything_that_is_wrong_is_said_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(
        '[cluster]\nnam = "x"\nmetadata = ["metadata-1:8111"]\n\n[tcp]\naddress = "nonsense"\n\n'
        '[root]\nusername = "iggy"\n'
    )
    variables = {"HEADRACE_GATEWAY_LINKS_UNSENT_TIMEOUT": "soon"}
    checked = headrace("config", "check", "--service", "gateway", "--config", str(file), environment=variables)
    assert checked.returncode == 1
    said = " ".join(checked.stderr.split())
    assert "5 wrong setting(s)" in said
    for words in (
        "cluster.nam: unknown setting",
        "line 2",
        "did you mean cluster.name?",
        "tcp.address: 'nonsense' is not ip:port",
        "line 6",
        "HEADRACE_GATEWAY_LINKS_UNSENT_TIMEOUT",
        "secret is needed",
        "username and password are given together",
    ):
        assert words in said


def test_settings_of_one_service_are_not_those_of_another(tmp_path: Path) -> None:
    file = tmp_path / "metadata.toml"
    file.write_text("[cluster]\nreplica = 0\n")
    assert headrace("config", "check", "-s", "metadata", "-c", str(file)).returncode == 0
    assert headrace("config", "check", "-s", "gateway", "-c", str(file)).returncode == 1
    assert headrace("config", "check", "-c", str(file)).returncode == 1


def test_certificates_are_looked_at_where_that_is_asked_for(tmp_path: Path) -> None:
    authority = trustme.CA()
    ours, other = authority.issue_cert("a.example.org"), authority.issue_cert("b.example.org")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    ours.private_key_pem.write_to_path(str(tmp_path / "ours.key"))
    ours.cert_chain_pems[0].write_to_path(str(tmp_path / "ours.pem"))
    other.private_key_pem.write_to_path(str(tmp_path / "other.key"))
    (tmp_path / "empty.pem").write_text("nothing\n")

    def check(certificate: str, key: str, ca: str) -> str:
        file = tmp_path / "gateway.toml"
        file.write_text(
            f'[cluster]\nauthority = "{tmp_path / ca}"\n\n[grpc.tls]\n'
            f'cert_file = "{tmp_path / certificate}"\nkey_file = "{tmp_path / key}"\n'
        )
        arguments = ("config", "check", "--service", "gateway", "--config", str(file))
        assert headrace(*arguments).returncode == 0, "only the service's machine has the files"
        checked = headrace(*arguments, "--files")
        assert checked.returncode == (0 if "settings are valid" in checked.stdout else 1)
        return "".join(checked.stdout.split()) + "".join(checked.stderr.split())

    assert "settingsarevalid" in check("ours.pem", "ours.key", "ca.pem")
    assert "grpc.tls.cert_file:" in check("ours.pem", "other.key", "ca.pem")
    assert "cannotberead:Nosuchfile" in check("none.pem", "ours.key", "ca.pem")
    assert "cluster.authority:" in check("ours.pem", "ours.key", "empty.pem")
    assert "2wrongsetting(s)" in check("empty.pem", "ours.key", "none.pem")


def test_the_settings_of_the_containers_are_right_and_trust_no_network(tmp_path: Path) -> None:
    """Certificate and secret are where `headrace-keys` puts them, so that the files are checked as well (CTL-6)."""
    authority = trustme.CA()
    certificate = authority.issue_cert("node-0", "localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "own.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    for secret in ("secret", "root-password", "connectors-token"):
        (tmp_path / secret).write_text("24 characters or more, as they are")
    shown = {}
    for service in (Service.METADATA, Service.NODE, Service.GATEWAY):
        settings = (COMPOSE / f"{service}.toml").read_text().replace("/run/keys", str(tmp_path))
        file = tmp_path / f"{service}.toml"
        file.write_text(settings)
        member = {"HEADRACE_METADATA_CLUSTER_REPLICA": "0"}
        checked = headrace(
            "config", "check", "--service", service, "--config", str(file), "--files", environment=member
        )
        assert checked.returncode == 0, checked.stderr
        shown[service] = tomllib.loads(settings)
        assert "trusted_network" not in shown[service]["cluster"]
    assert shown[Service.NODE]["binary"]["tls"] == {"enabled": True, "client_certificates": "required"}
    assert shown[Service.GATEWAY]["links"]["tls"]["enabled"]


def test_variables_of_iggy_without_effect_are_listed() -> None:
    variables = {"IGGY_SYSTEM_LOGGING_LEVEL": "debug", "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"}
    for service in Service:
        checked = headrace("config", "check", "-s", service, environment=variables)
        assert checked.returncode == 0
        assert "warning: IGGY_SYSTEM_ENCRYPTION_ENABLED has no effect" in checked.stderr
        assert "LOGGING" not in checked.stderr
        assert '"debug"' in headrace("config", "show", "-s", service, environment=variables).stdout
