"""Documents that commands print: valid by the schemas in docs/schemas, in JSON and in YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.command_line.schemas import DIRECTORY, validate
from tests.command_line.shell import Shell

from headrace.cli import schemas
from headrace_embedded import Server

COMMANDS = {
    "stream-list": ("stream", "list"),
    "stream-show": ("stream", "show", "{stream}"),
    "topic-list": ("topic", "list"),
    "topic-list-stream": ("topic", "list", "{stream}"),
    "topic-show": ("topic", "show", "{stream}", "t"),
    "topic-update": ("topic", "update", "{stream}", "t", "--message-expiry", "1 day"),
    "group-list": ("group", "list", "{stream}", "t"),
    "group-show": ("group", "show", "{stream}", "t", "g"),
    "group-lag": ("group", "lag", "{stream}", "t", "g"),
    "group-reset": ("group", "reset", "{stream}", "t", "g", "--to", "last", "--dry-run"),
    "user-list": ("user", "list"),
    "user-show": ("user", "show", "{user}"),
    "quota-list": ("quota", "list"),
    "quota-show": ("quota", "show", "--user", "{user}"),
    "token-list": ("token", "list"),
    "client-list": ("client", "list"),
    "stats": ("stats",),
}
CREATIONS = {
    "stream-create": ("stream", "create", "created"),
    "topic-create": ("topic", "create", "{stream}", "created"),
    "group-create": ("group", "create", "{stream}", "t", "created"),
    "user-create": ("user", "create", "created", "--new-password", "secret"),
    "token-create": ("token", "create", "created"),
}


@pytest.fixture
def filled(headrace: Shell, topic: tuple[str, str]) -> dict[str, str]:
    """Values for the commands: of a topic with a message and a group."""
    headrace("send", *topic, "x", "-p", "0", "-H", "a=b")
    headrace("group", "create", *topic, "g")
    return {"{stream}": topic[0], "{user}": headrace.login["HEADRACE_USERNAME"]}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed_is_valid(headrace: Shell, filled: dict[str, str], name: str) -> None:
    arguments = [filled.get(argument, argument) for argument in COMMANDS[name]]
    validate(name, json.loads(headrace(*arguments, "--output", "json")))
    validate(name, yaml.safe_load(headrace(*arguments, "--output", "yaml")))
    assert headrace(*arguments)


def test_what_is_created_is_valid(headrace: Shell, filled: dict[str, str]) -> None:
    for name, command in CREATIONS.items():
        arguments = [filled.get(argument, argument) for argument in command]
        validate(name, json.loads(headrace(*arguments, "--json")))
    for kind in ("stream", "user", "token"):
        headrace(kind, "delete", "created", "--yes")


def test_messages_are_valid(headrace: Shell, filled: dict[str, str]) -> None:
    command = ("poll", filled["{stream}"], "t", "--from", "first")
    validate("poll", json.loads(headrace(*command, "--json")))
    validate("poll", yaml.safe_load(headrace(*command, "-o", "yaml")))


def test_the_state_of_the_cluster_is_valid(headrace: Shell, server: Server) -> None:
    command = ("cluster", "status", "--url", server.http_url)
    document = json.loads(headrace(*command, "--json"))
    validate("cluster-status", document)
    validate("cluster-status", yaml.safe_load(headrace(*command, "-o", "yaml")))
    assert ([node["state"] for node in document["nodes"]], document["problems"]) == (["live"], [])
    assert "primary" in headrace(*command)


def test_events_of_the_audit_trail_are_valid(headrace: Shell, server: Server, filled: dict[str, str]) -> None:
    command = ("audit", "--url", server.http_url, "--event", "change")
    events = [json.loads(line) for line in headrace(*command, "--json").splitlines()]
    assert filled["{stream}"] in str(events)
    for event in events:
        validate("audit", event)


def test_the_directory_of_schemas_is_as_it_is_written(tmp_path: Path) -> None:
    """`make generate` writes it: a line for each field, and no file for a command that is gone."""
    schemas.write(tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {path.name: path.read_text() for path in DIRECTORY.iterdir()} == written
    assert '"size_bytes": {"type": "integer"},' in map(str.strip, written["topic-list.json"].splitlines())


def _objects(schema: object) -> Iterator[dict[str, object]]:
    if isinstance(schema, dict):
        if isinstance(properties := schema.get("properties"), dict):
            yield properties
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_moments_are_also_there_for_people(name: str) -> None:
    for properties in _objects(schemas.schema(name)):
        moments = [field.removesuffix("_micros") for field in properties if field.endswith("_at_micros")]
        assert [field for field in moments if field not in properties] == []
