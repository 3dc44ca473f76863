"""Connectors through a server's HTTP API: its users, its permissions, and never its token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.apis.http.api import Api, rights
from tests.conftest import StartServer
from tests.connectors.process import Connectors
from tests.rights import STREAM_RIGHTS
from tests.sdk.conftest import url_of
from tests.server_process import USERNAME, ServerProcess

TOKEN = "of-the-connectors"
SOURCE = '[sources.made]\nplugin = "random"\nstream = "shop"\ntopic = "orders"\n'
CHANGED = {"plugin": "random", "stream": "shop", "topic": "orders", "settings": {"interval": "1 h"}}


@pytest.fixture
def known(start_server: StartServer, tmp_path: Path) -> Iterator[tuple[ServerProcess, Connectors]]:
    """A server that knows connectors, and these connectors; not started."""
    connectors = Connectors(tmp_path, "")
    connectors.token = TOKEN
    server = start_server({"HTTP_CONNECTORS_URL": connectors.url, "HTTP_CONNECTORS_TOKEN": TOKEN})
    connectors.server_url = url_of(server.address)
    yield server, connectors
    connectors.kill()


async def test_users_read_and_change_with_permissions_of_their_own(known: tuple[ServerProcess, Connectors]) -> None:
    """CON-34: reading needs the right to read the server, a change the one to manage it; the author is the user."""
    server, connectors = known
    connectors.run(SOURCE)
    connectors.becomes("made", "running")
    async with aiohttp.ClientSession() as session:
        root = await Api(session, server.http_url).login()
        await until_topic(root)
        watcher = await root.create_user("watcher", rights("read_servers"))
        guest = await root.create_user("guest", rights("read_streams"))
        manager = await root.create_user("mänager", rights("manage_servers", "send_messages"))
        assert (await guest("GET", "/connectors")).code == 41
        (found,) = await watcher.ok("GET", "/connectors")
        assert (found["key"], found["kind"], found["state"], found["group"]) == ("made", "source", "running", None)
        versions = await watcher.ok("GET", "/connectors/made/versions")
        assert (versions["active"], versions["epoch"], versions["is_changeable"]) == (1, 1, True)
        assert (await watcher.ok("GET", "/connectors/made/history"))["samples"]
        assert await watcher.ok("GET", "/connectors/made/destinations") is not None
        body = {"definition": CHANGED, "comment": "slower"}
        for path in ("versions", "versions/1/activate", "start", "stop", "restart"):
            refused = await watcher("POST", f"/connectors/made/{path}", body if path == "versions" else {})
            assert refused.code == 41
        assert (await watcher("DELETE", "/connectors/made")).code == 41
        changed = await manager.ok("POST", "/connectors/made/versions?epoch=1", body)
        assert (changed["active"], changed["versions"][0]["author"]) == (2, "mänager")
        assert (await manager("POST", "/connectors/made/versions?epoch=1", body)).status == 412
        assert (await manager("POST", "/connectors/made/versions?epoch=0", body)).status == 412
        back = await manager.ok("POST", "/connectors/made/versions/1/activate?epoch=2", {"comment": "back"})
        assert (back["active"], back["activations"][0]["author"]) == (1, "mänager")
        assert (await manager.ok("POST", "/connectors/made/stop"))["state"] == "stopped"
        assert (await manager.ok("DELETE", "/connectors/made?epoch=3&comment=over"))["is_deleted"]
        assert await watcher.ok("GET", "/connectors") == []
        # The trail names the user; the token of the connectors is nowhere.
        lines = (await root("GET", "/audit?event=change")).body.decode().splitlines()
        events = [json.loads(line) for line in lines]
        actions = {one["action"]: one for one in events if one.get("username") == "mänager" and one["result"] == "ok"}
        assert {"ChangeConnector", "ActivateConnectorVersion", "StopConnector", "DeleteConnector"} <= set(actions)
        assert actions["ChangeConnector"]["subject"]["connector"] == "made"
        for path in ("/settings", "/logs", "/audit", "/connectors"):
            assert TOKEN not in (await root("GET", path)).body.decode()


OUT = {"plugin": "http", "settings": {"url": "http://127.0.0.1:9/"}}
BEYOND = [
    ("sink", OUT | {"stream": "shop", "topic": "orders"}),
    ("sink", OUT | {"topics": [{"stream": "shop", "topic": "orders"}]}),
    ("sink", OUT | {"stream": "${NAME}", "topic": "orders"}),
    ("sink", OUT | {"stream": "shop", "topic": "missing"}),
    ("source", {"plugin": "random", "stream": "shop", "topic": "orders"}),
    ("source", {"plugin": "random", "stream": "shop", "topic": "missing"}),
    ("source", {"plugin": "random", "stream": "${NAME}", "topic": "orders"}),
    ("source", {"plugin": "random", "stream": "shop", "topic": "orders", "routing": {"topic_column": "t"}}),
    ("source", {"plugin": "random", "stream": "shop", "topic": "orders", "transforms": {"x": {"plugin": "route"}}}),
]


async def test_a_connector_does_nothing_that_its_user_may_not(known: tuple[ServerProcess, Connectors]) -> None:
    """Regression: the right to manage the server alone was enough to read every topic through a sink."""
    server, connectors = known
    connectors.run(SOURCE)
    connectors.becomes("made", "running")
    async with aiohttp.ClientSession() as session:
        root = await Api(session, server.http_url).login()
        topics = await until_topic(root)
        manager = await root.create_user("manager", rights("manage_servers"))
        for kind, definition in BEYOND:
            for query in ("", "?check=true"):
                answer = await manager(
                    "POST", f"/connectors/x/versions{query}", {"kind": kind, "definition": definition}
                )
                assert (answer.status, answer.code) == (403, 41), definition
        changed = {"definition": CHANGED}
        assert (await manager("POST", "/connectors/made/versions", changed)).code == 41
        await root.ok("POST", "/connectors/made/versions", changed)
        assert (await manager("POST", "/connectors/made/versions/1/activate", {})).code == 41
        assert {one["key"] for one in await root.ok("GET", "/connectors")} == {"made"}
        # The right on one topic is enough for it, and for no other.
        one_topic = {"manage_topic": False, "read_topic": False, "poll_messages": True, "send_messages": True}
        stream_id, topic_id = topics
        on_topic = {"topics": {str(topic_id): one_topic}} | dict.fromkeys(STREAM_RIGHTS, False)
        reader = await root.create_user("reader", rights("manage_servers") | {"streams": {str(stream_id): on_topic}})
        for kind, definition in BEYOND[2:4] + BEYOND[5:]:
            answer = await reader("POST", "/connectors/x/versions", {"kind": kind, "definition": definition})
            assert (answer.status, answer.code) == (403, 41), definition
        for number, (kind, definition) in enumerate((*BEYOND[:2], BEYOND[4])):
            body = {"kind": kind, "definition": definition}
            await reader.ok("POST", f"/connectors/x{number}/versions", body)


async def until_topic(root: Api) -> tuple[int, int]:
    """Wait for the topic of the source; return the ids of the stream and the topic."""
    async with asyncio.timeout(30):
        while (await root("GET", "/streams/shop/topics/orders")).status != 200:
            await asyncio.sleep(0.02)
    stream = await root.ok("GET", "/streams/shop")
    return stream["id"], (await root.ok("GET", "/streams/shop/topics/orders"))["id"]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"definition": {"plugin": "random", "strem": "s"}}, 422, "sources.made.strem: unknown setting (did you mean"),
        ({"kind": "sink", "definition": {"plugin": "stdout", "stream": "s", "topic": "t"}}, 409, "made is in sources"),
        (
            {"definition": {"plugin": "webhook", "stream": "s", "topic": "t", "settings": {"token": "x"}}},
            422,
            "${NAME}",
        ),
    ],
)
async def test_refusals_reach_the_user(
    known: tuple[ServerProcess, Connectors], body: dict[str, Any], status: int, text: str
) -> None:
    """CON-34: with the text of the connectors."""
    server, connectors = known
    connectors.run(SOURCE)
    async with aiohttp.ClientSession() as session:
        root = await Api(session, server.http_url).login()
        for query in ("", "?check=true"):
            answer = await root("POST", f"/connectors/made/versions{query}", body)
            assert answer.status == status
            assert text in answer.data["reason"]
        checked = await root.ok("POST", "/connectors/made/versions?check=true", {"definition": CHANGED})
        assert checked["active"] == 1
        missing = await root("GET", "/connectors/no%2F..%2Fsuch")
        assert (missing.status, "there is no connector 'no/../such'" in missing.data["reason"]) == (404, True)


async def test_connectors_that_do_not_answer(
    known: tuple[ServerProcess, Connectors], start_server: StartServer
) -> None:
    """CON-34: no answer, a wrong token and no connectors at all are distinguished, and none logs a user out."""
    server, connectors = known
    async with aiohttp.ClientSession() as session:
        root = await Api(session, server.http_url).login()
        silent = await root("GET", "/connectors")
        assert (silent.status, "do not answer" in silent.data["reason"]) == (502, True)
        connectors.token = "another"
        connectors.run(SOURCE)
        wrong = await root("GET", "/connectors")
        assert (wrong.status, "correct http.connectors.token" in wrong.data["reason"]) == (502, True)
        other = await Api(session, start_server().http_url).login()
        none = await other("GET", "/connectors")
        assert (none.status, "set http.connectors.url" in none.data["reason"]) == (404, True)
        assert USERNAME in (await other("GET", "/users")).body.decode()


@pytest.fixture
def sharing(start_server: StartServer, tmp_path: Path) -> Iterator[tuple[ServerProcess, list[Connectors]]]:
    """A server that knows two processes, which share their connectors; not started."""
    pair = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        connectors = Connectors(tmp_path / name, "")
        pair.append(connectors)
    server = start_server({"HTTP_CONNECTORS_URL": f"{pair[0].url}, {pair[1].url}/"})
    for connectors in pair:
        connectors.server_url = url_of(server.address)
    yield server, pair
    for connectors in pair:
        connectors.kill()


async def test_each_connector_is_asked_where_it_runs(sharing: tuple[ServerProcess, list[Connectors]]) -> None:
    """CON-96: of processes that share connectors, any may be away; a call reaches the one that runs its connector."""
    server, pair = sharing
    made = SOURCE.replace("[sources.made]", "[sources.other]").replace("orders", "others")
    # The first one is killed, and the other waits for the end of its lease.
    for connectors, lease in zip(pair, ("8 s", "30 s"), strict=True):
        connectors.run(f'[sharing]\ngroup = "g"\nlease = "{lease}"\n' + SOURCE + made)
    async with aiohttp.ClientSession() as session:
        root = await Api(session, server.http_url).login()

        async def states() -> dict[str, tuple[str, str]]:
            return {one["key"]: (one["state"], one["runs_in"]) for one in await root.ok("GET", "/connectors")}

        async def become(expected: dict[str, str], processes: int) -> None:
            async with asyncio.timeout(60):
                while True:
                    found = await states()
                    if ({key: state for key, (state, _) in found.items()}, len({p for _, p in found.values()})) == (
                        expected,
                        processes,
                    ):
                        return
                    await asyncio.sleep(0.05)

        both = {"made": "running", "other": "running"}
        await become(both, 2)
        for key in both:
            assert (await root.ok("GET", f"/connectors/{key}"))["state"] == "running"
            assert (await root.ok("POST", f"/connectors/{key}/stop"))["state"] == "stopped"
            await root.ok("POST", f"/connectors/{key}/start")
            await become(both, 2)
            assert await root.ok("GET", f"/connectors/{key}/history")
        missing = await root("GET", "/connectors/none")
        assert (missing.status, "there is no connector 'none'" in missing.data["reason"]) == (404, True)
        pair[0].kill()
        assert set(await states()) == set(both), "one that is away hides nothing"
        await become(both, 1)
        assert (await root.ok("POST", "/connectors/made/stop"))["state"] == "stopped"
        pair[1].kill()
        silent = await root("GET", "/connectors")
        assert (silent.status, "do not answer" in silent.data["reason"]) == (502, True)
