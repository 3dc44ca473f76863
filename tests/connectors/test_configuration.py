"""Configurations over HTTP: changes, their versions, and connectors that follow them."""

from __future__ import annotations

import json
import threading
import urllib.error
from typing import Any

import pytest

import headrace
from tests.connectors.process import Connectors, until


@pytest.fixture
def changeable(connectors: Connectors) -> Connectors:
    """Connectors that accept changes."""
    connectors.token = "changes"
    return connectors


def definition(stream: str, topic: str, interval: str = "5 ms") -> dict[str, Any]:
    """A source of sample records."""
    return {"plugin": "random", "stream": stream, "topic": topic, "settings": {"interval": interval}}


def source(key: str, stream: str, topic: str) -> str:
    """A source of sample records, in a pipeline file."""
    table = f'[sources.{key}]\nplugin = "random"\nstream = "{stream}"\ntopic = "{topic}"\n'
    return f'{table}[sources.{key}.settings]\ninterval = "5 ms"\n'


def count(client: headrace.Client, stream: str, topic: str) -> int:
    """Number of messages in a topic."""
    try:
        return client.topic(stream, topic).messages_count
    except headrace.HeadraceError:
        return 0


def test_a_change_restarts_that_connector_alone(changeable: Connectors, client: headrace.Client, stream: str) -> None:
    """CON-31: it is in effect when it is answered, and after a start of the process; the other connector went on."""
    changeable.run(source("one", stream, "old") + source("two", stream, "other"))
    until(lambda: changeable.status("two")["records_count"] > 0 and changeable.status("one")["records_count"] > 0)
    before = changeable.status("two")
    answer = changeable.post(
        "/connectors/one/versions",
        {"definition": definition(stream, "new"), "comment": "moved"},
        If_Match='"1"',
        Headrace_Author="anna%20b",
    )
    assert (answer["active"], answer["epoch"]) == (2, 2)
    assert [(one["number"], one["author"], one["comment"]) for one in answer["versions"]] == [
        (2, "anna b", "moved"),
        (1, "pipeline file", "from pipeline.toml"),
    ]
    until(lambda: count(client, stream, "new") > 0)
    states = [one["state"] for one in changeable.status("one")["history"]]
    assert states[-2:] == ["starting", "running"]
    assert "stopped" in states
    assert changeable.status("two")["history"] == before["history"]
    assert changeable.stop() == 0
    written = count(client, stream, "old")
    changeable.run()
    changeable.becomes("one", "running")
    until(lambda: changeable.status("one")["records_count"] > 0)
    assert count(client, stream, "old") == written
    assert changeable.get("/connectors/one/versions")["active"] == 2


def test_roll_back_create_and_delete(changeable: Connectors, client: headrace.Client, stream: str) -> None:
    """CON-31: the way through the calls, for connectors that no file has."""
    changeable.run("")
    created = changeable.post(
        "/connectors/new/versions", {"kind": "source", "definition": definition(stream, "a")}, If_None_Match="*"
    )
    assert created["versions"][0]["kind"] == "source"
    changeable.becomes("new", "running")
    changeable.post(
        "/connectors/new/versions", {"definition": definition(stream, "b")}, If_Match=f'"{created["epoch"]}"'
    )
    until(lambda: count(client, stream, "b") > 0)
    back = changeable.post("/connectors/new/rollback", {"comment": "b was wrong"})
    assert (back["active"], back["epoch"], back["activations"][0]["comment"]) == (1, 3, "b was wrong")
    assert changeable.post("/connectors/new/versions/2/activate")["active"] == 2
    gone = changeable.get("/connectors/new?comment=over", "DELETE")
    assert (gone["is_deleted"], gone["versions"][0]["definition"], gone["versions"][0]["comment"]) == (
        True,
        None,
        "over",
    )
    assert changeable.refused("/connectors/new")["status"] == 404
    assert changeable.get("/connectors") == []
    assert changeable.post("/connectors/new/versions/1/activate")["is_deleted"] is False
    changeable.becomes("new", "running")


def test_a_stopped_connector_stays_stopped(changeable: Connectors, stream: str) -> None:
    changeable.run(source("one", stream, "t"))
    changeable.becomes("one", "running")
    changeable.post("/connectors/one/stop")
    changeable.post("/connectors/one/versions", {"definition": definition(stream, "u")})
    assert changeable.status("one")["state"] == "stopped"
    changeable.post("/connectors/one/start")
    changeable.becomes("one", "running")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"definition": {"plugin": "random", "strem": "s"}}, 422, "invalid_configuration"),
        ({"definitio": {}}, 422, "http"),
        ({"kind": "sink", "definition": {"plugin": "stdout", "stream": "s", "topic": "t"}}, 409, "wrong_kind"),
    ],
)
def test_refusals_are_typed_and_change_nothing(
    changeable: Connectors, stream: str, body: Any, status: int, code: str
) -> None:
    """CON-31: each mistake has its setting and what to write instead."""
    changeable.run(source("one", stream, "t"))
    before = changeable.get("/connectors/one/versions")
    problem = changeable.refused("/connectors/one/versions", "POST", body)
    assert (problem["status"], problem["code"]) == (status, code)
    if code == "invalid_configuration":
        assert problem["problems"][0]["setting"] == "sources.one.strem"
        assert problem["problems"][0]["nearest"] == "stream"
    assert changeable.get("/connectors/one/versions") == before


def test_conditions_and_checks(changeable: Connectors, stream: str) -> None:
    """CON-31: two that have read the same state do not overwrite each other's change."""
    changeable.run(source("one", stream, "t"))
    changed = {"definition": definition(stream, "u")}
    assert changeable.post("/connectors/one/versions?check=true", changed) == {"is_valid": True}
    changeable.post("/connectors/one/versions", changed, If_Match='"1"')
    problem = changeable.refused("/connectors/one/versions", "POST", changed, If_Match='"1"')
    assert (problem["status"], problem["code"]) == (412, "changed_meanwhile")
    assert changeable.refused("/connectors/one/versions", "POST", changed, If_None_Match="*")["status"] == 412
    assert changeable.refused("/connectors/one", "DELETE", If_Match='"1"')["status"] == 412
    assert changeable.refused("/connectors/one", "DELETE", If_Match=f'"{"9" * 5000}"')["status"] == 412
    assert changeable.refused("/connectors/none/versions")["status"] == 404
    assert changeable.refused("/connectors/one/versions/7/activate", "POST")["code"] == "not_found"
    assert changeable.refused("/connectors/..%2Fup/versions", "POST", {"kind": "source", **changed})["status"] == 422


def test_changes_need_the_setting_and_the_token(connectors: Connectors, stream: str) -> None:
    """CON-31: no connector changes without the token, and none if it is not wanted."""
    connectors.run(source("one", stream, "t"))
    changed = {"definition": definition(stream, "u")}
    assert connectors.refused("/connectors/one/versions", "POST", changed)["code"] == "not_changeable"
    assert connectors.get("/connectors/one/versions")["is_changeable"] is False
    # Pages that a browser shows can send requests to loopback.
    assert connectors.refused("/connectors/one/stop", "POST", Origin="http://evil.example")["code"] == "foreign_page"
    assert connectors.refused("/connectors", Host="evil.example:8120")["code"] == "foreign_page"
    connectors.stop()
    connectors.token = "right"
    connectors.run(source("one", stream, "t"))
    for path in ("/connectors/one/versions", "/connectors/one/versions/1/activate", "/mappings/m/versions"):
        assert connectors.refused(path, "POST", changed, Authorization="Bearer wrong")["status"] == 401


@pytest.mark.long
def test_a_kill_during_changes_loses_no_answered_one(changeable: Connectors, stream: str) -> None:
    """CON-31: killed at any moment, the versions are whole, and every answered change is there."""
    changeable.run(source("one", stream, "t"))
    for _ in range(4):
        answered = [changeable.get("/connectors/one/versions")["epoch"]]
        ready = threading.Event()

        def change(answered: list[int] = answered, ready: threading.Event = ready) -> None:
            while True:
                try:
                    answer = changeable.post("/connectors/one/versions", {"definition": definition(stream, "u", "1 h")})
                except (OSError, urllib.error.URLError, json.JSONDecodeError):
                    return
                answered.append(answer["epoch"])
                if len(answered) > 3:
                    ready.set()

        thread = threading.Thread(target=change)
        thread.start()
        assert ready.wait(60)
        changeable.kill()
        thread.join()
        changeable.run()
        found = changeable.get("/connectors/one/versions")
        assert found["epoch"] in (answered[-1], answered[-1] + 1)
        numbers = [one["number"] for one in found["versions"]]
        assert numbers == sorted(numbers, reverse=True)
        assert found["active"] == numbers[0]


def test_a_mapping_changes_while_records_are_routed(
    changeable: Connectors, client: headrace.Client, stream: str
) -> None:
    """CON-32: records are in the topic of the epoch of their tag; a mapping that is gone changes nothing."""
    changeable.run(
        f'[mappings.kinds]\n"kind" = {{ stream = "{stream}", topic = "unused" }}\n'
        '[sources.made]\nplugin = "random"\n[sources.made.settings]\ninterval = "2 ms"\n'
        f'[sources.made.transforms.route]\ntopic_field = "ware"\nmapping_url = "{changeable.url}/mappings/kinds"\n'
        f'mapping_token = "{changeable.token}"\nreload_interval = "100 ms"\n'
        f'[sources.made.transforms.route.default]\nstream = "{stream}"\ntopic = "first"\n'
    )
    until(lambda: count(client, stream, "first") > 0)
    # Messages are counted before they can be read.
    message = until(lambda: client.read(stream, "first", partition=0, count=1))[0]
    first = message.headers["mapping_epoch"]
    ware = json.loads(message.payload)["ware"]
    changed = changeable.get("/mappings/kinds", "PUT", {ware: {"stream": stream, "topic": "second"}}, If_Match='"1"')
    assert changed["epoch"] == 2
    until(lambda: count(client, stream, "second") > 10)
    second = changeable.get("/connectors/made")["transforms"]["route"]["epoch"]
    assert second != first
    changeable.get("/mappings/kinds", "DELETE")
    report = until(lambda: found if (found := changeable.status("made")["transforms"]["route"])["error"] else None)
    assert (report["epoch"], "answered 404" in report["error"]) == (second, True)
    assert changeable.status("made")["state"] == "running"
    assert changeable.post("/mappings/kinds/rollback")["epoch"] == 4
    until(lambda: changeable.status("made")["transforms"]["route"]["error"] is None)
    changeable.stop()
    for message in client.read(stream, "second", partition=0, count=10_000):
        assert json.loads(message.payload)["ware"] == ware
        assert message.headers["mapping_epoch"] != first
    for message in client.read(stream, "first", partition=0, count=10_000):
        is_of_ware = json.loads(message.payload)["ware"] == ware
        assert (message.headers["mapping_epoch"] == first) or not is_of_ware


@pytest.mark.long
def test_a_sink_shows_its_lag(changeable: Connectors, client: headrace.Client, stream: str) -> None:
    """CON-33: messages after the stored offsets, and records per second, sampled while it runs."""
    client.create_stream(stream)
    client.create_topic(stream, "read", partitions=2)
    with client.producer(stream, "read") as producer:
        for number in range(30):
            producer.send(str(number).encode())
    changeable.run(f'[sinks.out]\nplugin = "stdout"\nstream = "{stream}"\ntopic = "read"\nenabled = false\n')
    until(lambda: changeable.status("out")["lag"])
    assert changeable.status("out")["lag"] == {"behind": 30, "unit": "messages"}
    (sample, *_) = changeable.get("/connectors/out/history")["samples"]
    assert (sample["state"], sample["lag"]["behind"], sample["records_per_second"]) == ("stopped", 30, None)
    changeable.post("/connectors/out/start")
    until(lambda: changeable.status("out")["lag"] == {"behind": 0, "unit": "messages"})
    until(lambda: changeable.status("out")["records_count"] == 30)
