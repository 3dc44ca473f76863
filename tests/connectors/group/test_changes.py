"""CON-76: changes over HTTP in a group take effect in the process that runs the connector, once, whatever is killed."""

from __future__ import annotations

import json
import signal
import threading
import urllib.error
from typing import Any

import pytest

import headrace
from tests.connectors.group.processes import CHANGING_LEASE, SHORT_LEASE, Group, running, state
from tests.connectors.process import Connectors, until
from tests.sdk.conftest import url_of
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess


def test_a_change_takes_effect_where_the_connector_runs(group: Group, client: headrace.Client) -> None:
    """Accepted by the other process; both show the same versions, and a new connector is claimed by one of them."""
    one, two = group.process("one"), group.process("two")
    one.run(group.pipeline(group.source("a", "old")))
    until(lambda: group.count(client, "old") > 0)
    two.run(group.pipeline(group.source("a", "old")))
    two.becomes("a", "standby")
    answer = two.post(
        "/connectors/a/versions", {"definition": group.definition("new"), "comment": "moved"}, If_Match='"1"'
    )
    assert (answer["active"], answer["epoch"]) == (2, 2)
    until(lambda: group.count(client, "new") > 0)
    assert (running(one), state(two, "a")) == ({"a"}, "standby")
    written = group.count(client, "old")
    assert one.get("/connectors/a/versions") == answer
    assert [version["origin"] for version in answer["versions"]] == ["http", "file"]

    two.post("/connectors/b/versions", {"kind": "source", "definition": group.definition("b")}, If_None_Match="*")
    until(lambda: running(one) | running(two) == {"a", "b"})
    assert running(one) & running(two) == set()
    until(lambda: group.count(client, "b") > 0)
    assert one.refused("/connectors/b/versions", "POST", {"definition": {}}, If_Match='"7"')["status"] == 412

    one.get("/connectors/b", "DELETE")
    until(lambda: state(one, "b") is None and state(two, "b") is None)
    ended = group.count(client, "b")
    assert two.post("/connectors/a/rollback")["active"] == 1
    until(lambda: group.count(client, "old") > written)
    assert group.count(client, "b") == ended
    mapping = {"x": {"stream": group.stream, "topic": "x"}}
    one.get("/mappings/kinds", "PUT", mapping)
    assert until(lambda: two.get("/mappings") == {"mappings": ["kinds"]})
    assert two.get("/mappings/kinds") == mapping
    assert two.refused("/mappings/kinds", "PUT", mapping, If_None_Match="*")["status"] == 412


def test_a_stopped_connector_stays_stopped_and_a_disabled_one_is_given_up(group: Group) -> None:
    """CON-76: a change starts nothing that a call has stopped."""
    one, two = group.process("one"), group.process("two")
    one.run(group.pipeline(group.source("a", "old")))
    one.becomes("a", "running")
    two.run(group.pipeline(group.source("a", "old")))
    one.post("/connectors/a/stop")
    two.post("/connectors/a/versions", {"definition": group.definition("new")})
    until(lambda: one.get("/connectors/a/versions")["epoch"] == 2)
    assert one.status("a")["state"] == "stopped"
    one.post("/connectors/a/start")
    one.becomes("a", "running")
    two.post("/connectors/a/versions", {"definition": group.definition("new", enabled=False)})
    one.becomes("a", "stopped")
    until(lambda: one.status("a")["runs_in"] is None)
    assert two.refused("/connectors/a/start", "POST")["code"] == "not_here"
    two.post("/connectors/a/versions", {"definition": group.definition("new")})
    until(lambda: running(one) | running(two) == {"a"})


def test_a_change_is_refused_to_one_of_two(group: Group) -> None:
    """CON-76: both have read the same state; each epoch is made once."""
    one, two = group.process("one"), group.process("two")
    for process in (one, two):
        process.run(group.pipeline())
    one.post("/connectors/a/versions", {"kind": "source", "definition": group.definition("t", enabled=False)})
    for conditional in (True, False):
        for _ in range(10):
            epoch = one.get("/connectors/a/versions")["epoch"]
            answers = _at_once([one, two], group, epoch if conditional else None)
            made = [answer for answer in answers if answer < 400]
            assert len(made) + sum(answer in (409, 412) for answer in answers) == 2
            assert made
            if conditional:
                assert sorted(answers) == [201, 412]
            found = two.get("/connectors/a/versions")
            assert found["epoch"] == epoch + len(made)
            numbers = [version["number"] for version in found["versions"]]
            assert numbers == sorted(set(numbers), reverse=True)


def _at_once(processes: list[Connectors], group: Group, epoch: int | None) -> list[int]:
    barrier, answers = threading.Barrier(len(processes)), []

    def change(process: Connectors) -> None:
        headers = {} if epoch is None else {"If_Match": f'"{epoch}"'}
        barrier.wait(60)
        try:
            process.post("/connectors/a/versions", {"definition": group.definition("t", enabled=False)}, **headers)
        except urllib.error.HTTPError as error:
            answers.append(error.code)
        else:
            answers.append(201)

    threads = [threading.Thread(target=change, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize(
    ("point", "is_there"),
    [
        ("change-before-sending", False),
        ("change-stored", True),
        ("change-read", True),
        ("change-in-effect", True),
    ],
)
def test_a_change_of_a_killed_process_is_whole_or_absent(
    group: Group, client: headrace.Client, point: str, is_there: bool
) -> None:
    """CON-76: at each step of the process that accepts it; the other one runs what the versions say."""
    one, two = group.process("one"), group.process("two")
    pipeline = group.pipeline(group.source("a", "old"))
    one.run(pipeline)
    until(lambda: group.count(client, "old") > 0)
    two.run(pipeline, fault=[point])
    two.becomes("a", "standby")
    with pytest.raises(OSError, match=r"."):
        two.post("/connectors/a/versions", {"definition": group.definition("new")})
    two.wait()
    found = one.get("/connectors/a/versions")
    assert (found["epoch"], found["active"]) == ((2, 2) if is_there else (1, 1))
    assert found["versions"][0]["definition"]["topic"] == ("new" if is_there else "old")
    topic = "new" if is_there else "old"
    before = group.count(client, topic)
    until(lambda: group.count(client, topic) > before)
    two.run()
    assert two.get("/connectors/a/versions") == found


def test_kills_lose_no_answered_change(group: Group) -> None:
    """CON-76: two processes are changed and killed in turn, and the versions are those of the answers."""
    one, two = group.process("one"), group.process("two")
    for process in (one, two):
        process.run(group.pipeline())
    one.post("/connectors/a/versions", {"kind": "source", "definition": group.definition("0", enabled=False)})
    for victim, other in ((one, two), (two, one), (one, two)):
        answered: list[tuple[int, str]] = []
        ready = threading.Event()

        def change(
            victim: Connectors = victim, answered: list[tuple[int, str]] = answered, ready: threading.Event = ready
        ) -> None:
            while True:
                topic = f"{victim.directory.name}-{len(answered)}"
                try:
                    answer = victim.post(
                        "/connectors/a/versions", {"definition": group.definition(topic, enabled=False)}
                    )
                except (OSError, json.JSONDecodeError):
                    return
                answered.append((answer["active"], topic))
                if len(answered) > 3:
                    ready.set()

        thread = threading.Thread(target=change)
        thread.start()
        assert ready.wait(60)
        victim.kill()
        thread.join()
        found = other.get("/connectors/a/versions")
        topics = {version["number"]: version["definition"]["topic"] for version in found["versions"]}
        assert all(topics[number] == topic for number, topic in answered)
        assert found["active"] in (answered[-1][0], answered[-1][0] + 1)
        victim.run()
        assert victim.get("/connectors/a/versions") == found


@pytest.mark.long
def test_a_process_that_was_cut_off_catches_up_before_it_claims(
    group: Group, client: headrace.Client, shared_server: ServerProcess
) -> None:
    """CON-77: it was cut off during the change, and takes the connector over with the newest configuration alone."""
    pipeline = group.pipeline(group.source("a", "old"), lease=CHANGING_LEASE)
    with Proxy(shared_server.address) as proxy:
        one, two = group.process("one"), group.process("two", url_of(proxy.address))
        one.run(pipeline)
        until(lambda: group.count(client, "old") > 0)
        two.run(pipeline)
        two.becomes("a", "standby")
        proxy.stall()
        one.post("/connectors/a/versions", {"definition": group.definition("new")})
        until(lambda: group.count(client, "new") > 0)
        assert two.refused("/connectors/a/versions")["status"] == 503
        assert two.refused("/connectors/a/versions", "POST", {"definition": group.definition("x")})["status"] == 503
        one.kill()
        written, before = group.count(client, "old"), group.count(client, "new")
        proxy.stall(is_stalled=False)
        two.becomes("a", "running")
        until(lambda: group.count(client, "new") > before)
        assert group.count(client, "old") == written

        assert two.get("/connectors/a/versions")["epoch"] == 2


@pytest.mark.long
def test_a_stopped_process_and_a_late_one_run_the_newest(group: Group, client: headrace.Client) -> None:
    """CON-77: a holder is stopped, its connector is changed and taken over, and both it and a new process follow."""
    one, two, late = group.process("one"), group.process("two"), group.process("late")
    pipeline = group.pipeline(group.source("a", "old"))
    one.run(group.pipeline(group.source("a", "old"), lease=SHORT_LEASE))
    until(lambda: group.count(client, "old") > 0)
    two.run(pipeline)
    two.becomes("a", "standby")
    one.send_signal(signal.SIGSTOP)
    two.post("/connectors/a/versions", {"definition": group.definition("new")})
    until(lambda: group.count(client, "new") > 0)
    one.send_signal(signal.SIGCONT)
    one.becomes("a", "standby")
    written = group.count(client, "old")
    two.stop()
    one.becomes("a", "running")
    late.run(pipeline)
    one.stop()
    before = group.count(client, "new")
    late.becomes("a", "running")
    until(lambda: group.count(client, "new") > before)
    assert group.count(client, "old") == written
    definitions: list[Any] = late.get("/connectors/a/versions")["versions"]
    assert [version["definition"]["topic"] for version in definitions] == ["new", "old"]


def test_a_sink_and_a_process_of_its_own_are_changed(group: Group, client: headrace.Client) -> None:
    """CON-76: both end where they run, and go on there after what they have stored."""
    one, two = group.process("one"), group.process("two")
    one.run(group.pipeline(group.source("a", "t")))
    until(lambda: group.count(client, "t") > 0)
    two.run(group.pipeline(group.source("a", "t")))
    sink = {"plugin": "stdout", "stream": group.stream, "topic": "t", "linger": "10 ms"}
    two.post("/connectors/shown/versions", {"kind": "sink", "definition": sink})
    until(lambda: running(one) | running(two) == {"a", "shown"})
    holder, other = (one, two) if "shown" in running(one) else (two, one)
    until(lambda: holder.status("shown")["records_count"] > 0)
    other.post("/connectors/shown/versions", {"definition": {**sink, "batch_size": 10, "linger": "5 ms"}})
    until(lambda: [entry["state"] for entry in holder.status("shown")["history"]].count("running") == 2)
    until(lambda: holder.status("shown")["records_count"] > 0)

    other.post("/connectors/a/versions", {"definition": group.definition("t", isolation="process")})
    source = until(lambda: next((one_ for one_ in (one, two) if one_.status("a").get("process_id")), None))
    count = group.count(client, "t")
    until(lambda: group.count(client, "t") > count)
    worker = source.status("a")["process_id"]
    other.post("/connectors/a/versions", {"definition": group.definition("u", isolation="process")})
    until(lambda: group.count(client, "u") > 0)
    assert source.status("a")["process_id"] != worker
    assert running(one) & running(two) == set()
