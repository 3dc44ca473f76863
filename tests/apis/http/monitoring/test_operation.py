"""Settings and the log of a running server, for users with the right to read the server (GW-4)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.apis.http.api import Api, rights
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer
from tests.server_process import PASSWORD, ServerProcess


async def test_settings_in_force(root: Api, shared_server: ServerProcess) -> None:
    settings = {setting["name"]: setting for setting in await root.ok("GET", "/settings")}
    bound = settings["tcp.address"]
    assert bound["value"] == f'"{shared_server.address}"'
    assert (bound["origin"], bound["is_default"], bound["is_secret"]) == ("option --address", False, False)
    assert settings["http.address"]["value"] in f'"{shared_server.http_url}"'.replace("http://", "")
    assert settings["http.address"]["variable"] == "HEADRACE_HTTP_ADDRESS"
    assert settings["http.address"]["description"]
    assert settings["heartbeat.enabled"]["is_default"]
    assert len(settings) > 50


async def test_secrets_are_not_among_them(root: Api) -> None:
    answer = await root("GET", "/settings")
    password = next(setting for setting in answer.data if setting["name"] == "root.password")
    assert (password["value"], password["is_set"], password["is_secret"]) == (None, True, True)
    # Root's name and password are equal here: the text may appear only as the name.
    shown = [setting["name"] for setting in answer.data if setting["value"] == f'"{PASSWORD}"']
    assert shown == ["root.username"]


async def test_they_need_the_right_to_read_the_server(root: Api) -> None:
    guest = await root.create_user("operation-guest", rights("read_streams"))
    watcher = await root.create_user("operation-watcher", rights("read_servers"))
    for path in ("/settings", "/logs"):
        assert (await guest("GET", path)).code == 41
        assert (await watcher("GET", path)).status == 200


async def test_the_log_is_followed(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_ACCESS_LOG": "true"})
    root = await reach(server).login()
    seen = await root.ok("GET", "/logs")
    assert [record["sequence"] for record in seen["records"]] == list(range(1, seen["last"] + 1))
    login = next(record for record in seen["records"] if record["message"] == "POST /users/login 200")
    assert (login["level"], login["logger"]) == ("info", "headrace_gateway.http.access")
    assert login["fields"]["address"] == "127.0.0.1"
    assert abs(login["timestamp"] / 1e6 - time.time()) < 60

    async def followed(answer: dict[str, Any]) -> dict[str, Any]:
        while True:
            # Other lines appear as well, such as that of the previous request.
            answer = await root.ok("GET", f"/logs?after={answer['last']}&wait_ms=20000")
            assert answer["missed"] == 0
            if any(record["message"].startswith("GET /ping") for record in answer["records"]):
                return answer

    waiting = asyncio.create_task(followed(await root.ok("GET", "/logs?level=error")))
    await asyncio.sleep(0.3)
    await root("GET", "/ping")
    answer = await asyncio.wait_for(waiting, 60)

    # A waiting request does not delay the shutdown of the server.
    waiting = asyncio.create_task(root("GET", f"/logs?after={answer['last']}&level=error&wait_ms=60000"))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    assert await asyncio.to_thread(server.stop) == 0
    assert time.monotonic() - began < 20
    await asyncio.gather(waiting, return_exceptions=True)


async def test_what_has_gone_is_counted(start_server: StartServer, reach: Reach) -> None:
    settings = {"HTTP_ACCESS_LOG": "true", "HTTP_CONSOLE_LOG_RECORDS": "10", "HTTP_CONSOLE_ENABLED": "false"}
    root = await reach(start_server(settings)).login()
    first = (await root.ok("GET", "/logs"))["last"]
    for _ in range(20):
        await root("GET", "/ping")
    answer = await root.ok("GET", f"/logs?after={first}")
    assert len(answer["records"]) == 10
    assert answer["missed"] == answer["records"][0]["sequence"] - first - 1 > 0
    # Without the console a browser gets the same response as any client.
    assert (await root("GET", "/", headers={"Accept": "text/html"})).body == b"Iggy API"
    assert (await root.ok("GET", "/logs?after=999999&count=3"))["records"] == (await root.ok("GET", "/logs?count=4"))[
        "records"
    ][:3]
