"""Audit events of `/ws`: successful logins, and refused ones with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.http.api import Api
from tests.apis.http.conftest import Reach
from tests.apis.push.browser import Closed, Refusal, connected, connections_are, logged_in
from tests.apis.push.test_connections import upgrade
from tests.conftest import StartServer

SETTINGS = {"PUSH_MAX_CONNECTIONS_PER_USER": "1", "PUSH_MAX_CONNECTIONS_PER_ADDRESS": "2"}


async def trail(root: Api) -> list[dict[str, Any]]:
    """Every event of `/ws`, oldest first."""
    answer = await root("GET", "/audit?count=1000")
    assert answer.status == 200
    events = [json.loads(line) for line in answer.body.splitlines()]
    return [event for event in reversed(events) if event["transport"] == "push"]


async def test_who_comes_in_and_who_does_not(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server(SETTINGS)).login()
    other = await root.create_user("ann")
    token = (await root.ok("POST", "/personal-access-tokens", {"name": "browser"}))["token"]
    assert await upgrade(root, Origin="https://evil.example") == 403
    async with connected(root) as browser:
        await browser.send(type="ping", id=1)
        assert await browser.closed() == 4401
    for wrong in ("a.b.c", "no-such-access-token"):
        # The slot of the previous connection is released shortly after its end, and the limit is two.
        await connections_are(root, 0)
        async with connected(root) as browser:
            with pytest.raises(Refusal):
                await browser.login(wrong)
    await connections_are(root, 0)
    async with logged_in(root) as browser:
        async with connected(root) as second:
            with pytest.raises(Closed):
                await second.login(token)
        with pytest.raises(Refusal):
            await browser.login(other.token)
    await connections_are(root, 0)
    async with connected(root) as browser, connected(root):
        async with connected(root) as third:
            assert await third.closed() == 4429
        await browser.login(token)

    found = await trail(root)
    assert token not in json.dumps(found)
    assert all(event["address"].startswith("127.0.0.1:") for event in found), found
    assert [
        (event["event"], event["action"], event["result"], event.get("username"), event.get("subject"))
        for event in found
    ] == [
        ("refusal", "GET /ws", "ForeignOrigin", None, {"origin": "https://evil.example"}),
        ("refusal", "GET /ws", "Unauthenticated", None, None),
        ("login", "login_with_web_token", "InvalidAccessToken", None, None),
        ("login", "login_with_access_token", "ResourceNotFound", None, None),
        ("login", "login_with_web_token", "ok", "iggy", None),
        ("login", "login_with_access_token", "TooManyConnections", "iggy", None),
        ("login", "login_with_web_token", "InvalidAccessToken", "ann", None),
        ("refusal", "GET /ws", "TooManyConnections", None, None),
        ("login", "login_with_access_token", "ok", "iggy", None),
    ]
