"""The reference names what there is, compared with other sources than those that it is made from."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pool import Default
from prometheus_client.parser import text_string_to_metric_families

import headrace
import headrace.aio
import headrace.tables
import headrace.testing
from headrace.cli.program import program
from headrace_proto import errors
from headrace_proto.gateway import v1 as gateway
from headrace_proto.partition import v1 as partition
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SERVICES = [
    *(
        f"headrace.gateway.v1.{name}"
        for name in ("Accounts", "Catalog", "Login", "Messages", "Subscriptions", "System")
    ),
    "headrace.gateway.v1.Pipelines",
    "headrace.partition.v1.Partition",
]


def page(site: Path, name: str) -> str:
    return (site / "reference" / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """The part of a page below a heading, up to the next one."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def shown(*arguments: str) -> str:
    """Output of a command with `--help`."""
    result = CliRunner().invoke(program, [*arguments, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.output


def subcommands(text: str) -> list[str]:
    commands = text.partition("Commands:")[2]
    return re.findall(r"^  ([a-z][a-z-]*)\s", commands, flags=re.MULTILINE)


def test_every_command_and_option_is_there(site: Path) -> None:
    text = page(site, "command-line.md")
    common = section(text, "Options of most commands")
    count = 0
    for name in subcommands(shown()):
        for path in [(name, inner) for inner in subcommands(shown(name))] or [(name,)]:
            count += 1
            described = section(text, " ".join(["headrace", *path])) + common
            options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown(*path).partition("Options:")[2])) - {"--help"}
            assert options <= set(re.findall(r"--[a-z][a-z-]+", described)), path
    assert count > 30


def test_every_status_code_is_there(site: Path) -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page(site, "status-codes.md"), flags=re.MULTILINE)
    assert [int(code) for code, _ in rows] == sorted(errors.Status)[1:]


@pytest.mark.parametrize("name", SERVICES)
def test_every_call_is_there(site: Path, name: str) -> None:
    assert gateway
    assert partition
    service: ServiceDescriptor = Default().FindServiceByName(name)
    described = section(page(site, "grpc.md"), f"Service {service.name}")
    for method in service.methods:
        assert f"| `{method.name}` |" in described


@pytest.mark.parametrize("package", [headrace, headrace.aio, headrace.tables, headrace.testing])
def test_every_name_of_the_python_client_is_there(site: Path, package: ModuleType) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("python-*.html"))
    described = set(re.findall(r'id="headrace(?:_core)?\.([\w.]+)"', pages))
    if package is not headrace:
        inside = package.__name__.removeprefix("headrace.")
        described = {name for name in described if name.startswith(f"{inside}.")}
    missing = set(package.__all__) - {name.rpartition(".")[2] for name in described}
    assert not missing


def test_every_metric_and_route_of_a_server_is_there(site: Path, shared_server: ServerProcess) -> None:
    body = json.dumps({"username": USERNAME, "password": PASSWORD}).encode()
    headers = {"Content-Type": "application/json"}
    login = urllib.request.Request(f"{shared_server.http_url}/users/login", body, headers)
    with urllib.request.urlopen(login) as response:
        token = json.load(response)["access_token"]["token"]
    scrape = urllib.request.Request(
        f"{shared_server.http_url}/metrics?detail=partitions", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(scrape) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    assert len(families) > 80
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", page(site, "metrics.md"), flags=re.MULTILINE)
    described = {name: (kind, set(re.findall(r"\w+", labels))) for name, kind, labels in rows}
    for family in families:
        if family.name.endswith("_created"):
            continue  # The time of the first sample, which this format shows as a metric.
        kind, labels = described[f"{family.name}_total" if family.type == "counter" else family.name]
        assert kind == family.type, family.name
        assert {label for sample in family.samples for label in sample.labels} - {"le"} <= labels, family.name
    with urllib.request.urlopen(f"{shared_server.http_url}/openapi.json") as response:
        paths = json.load(response)["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert section(page(site, "http.md"), f"{method.upper()} {path}")
