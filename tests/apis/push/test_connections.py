"""Connecting, staying connected and being disconnected (GW-5)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import pytest

from tests.apis.http.api import Api, batch, rights
from tests.apis.http.conftest import Reach
from tests.apis.push.browser import BINARY, JSON, Closed, Refusal, connected, connections_are, logged_in
from tests.conftest import StartServer
from tests.server_process import ServerProcess


async def upgrade(api: Api, **headers: str) -> int:
    """The status of an upgrade request."""
    sent = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    sent |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    async with api.session.get(f"{api.url}/ws", headers=sent) as answer:
        return answer.status


async def test_a_login(root: Api) -> None:
    async with connected(root) as browser:
        answer = await browser.login(root.token)
    assert (answer["username"], answer["heartbeat_ms"]) == ("iggy", 15_000)
    assert 0 < answer["expires_at"] - time.time() <= 3600
    assert set(answer["limits"]) == {"subscriptions", "partitions", "credit_messages", "credit_bytes", "message_bytes"}


async def test_a_login_with_an_access_token(root: Api) -> None:
    token = (await root.ok("POST", "/personal-access-tokens", {"name": "browser"}))["token"]
    async with connected(root) as browser:
        answer = await browser.login(token)
        assert (answer["username"], answer["expires_at"]) == ("iggy", None)
        await root.ok("DELETE", "/personal-access-tokens/browser")
        assert await browser.closed() == 4401
    async with connected(root) as browser:
        with pytest.raises(Refusal):
            await browser.login(token)
        assert await browser.closed() == 4401


@pytest.mark.parametrize("first", ["ping", "subscribe", "credit", "malformed", "binary", "wrong token"])
async def test_unauthenticated_clients_are_refused(root: Api, first: str) -> None:
    async with connected(root, BINARY) as browser:
        match first:
            case "binary":
                await browser.socket.send_bytes(bytes((1, 0, 0, 0, 9, 0, 0, 0)) + b"x")
            case "credit":
                await browser.send(type="credit", subscription=1)
            case "malformed":
                await browser.send(type="ping", id=9, more=1)
            case "subscribe":
                await browser.send(type="subscribe", id=9, subscription=1, topics=[{"stream": 0, "topic": 0}])
            case "wrong token":
                await browser.send(type="login", id=9, token="a.b.c")
            case _:
                await browser.send(type=first, id=9)
        if first != "credit":
            message = await browser.read()
            assert (message["type"], message["id"]) == ("error", 9)
            assert message["code"] == (78 if first == "wrong token" else 40)
        assert await browser.closed() == 4401


@pytest.mark.parametrize(
    "message", ["", "{", "[]", "5", '{"type": "ping"}', '{"type": "dance"}', '{"id": 1.5}', "[" * 5000]
)
async def test_what_cannot_be_understood(root: Api, message: str) -> None:
    async with logged_in(root) as browser:
        await browser.socket.send_str(message)
        assert await browser.closed() == 4400


async def test_what_can_be_answered_is(root: Api) -> None:
    async with logged_in(root) as browser:
        for message, field in (
            ({"type": "dance"}, None),
            ({}, None),
            ({"type": 5}, "type"),
            ({"type": "subscribe", "topics": []}, None),
            ({"type": "unsubscribe", "subscription": "x"}, "subscription"),
        ):
            await browser.send(id=5, **message)
            with pytest.raises(Refusal) as refusal:
                await browser.answer(5)
            assert refusal.value.code == 3
            assert field is None or refusal.value.field == field
        # JSON does not distinguish 6.0 from 6.
        await browser.socket.send_str('{"type": "ping", "id": 6.0}')
        await browser.answer(6)


async def test_each_subprotocol_has_its_frames(root: Api) -> None:
    async with logged_in(root, JSON) as browser:
        await browser.socket.send_bytes(b"x")
        assert await browser.closed() == 1003
    for wrong in (b"", b"\x01", b"\x02" + bytes(7), b"\x01\x01" + bytes(6)):
        async with logged_in(root, BINARY) as browser:
            await browser.socket.send_bytes(wrong)
            assert await browser.closed() == 4400


async def test_limits_of_the_framing(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"PUSH_MAX_MESSAGE_SIZE": "64 KiB"})).login()
    async with logged_in(root) as browser:
        await browser.socket.send_str('{"type": "ping", "id": 1, "x": "' + "x" * 65536)
        assert await browser.closed() == 1009
    async with logged_in(root) as browser:
        # A text frame that is not valid UTF-8, masked with zeros.
        assert browser.socket._conn is not None
        browser.socket._conn.transport.write(b"\x81\x82\0\0\0\0\xff\xff")
        assert await browser.closed() == 1007


async def test_subprotocols(root: Api) -> None:
    assert await upgrade(root, Sec_WebSocket_Protocol="chat, headrace.v2.json") == 400
    assert await upgrade(root, Upgrade="http/2") == 400
    assert (await root("GET", "/ws", token=root.token)).status == 400
    async with root.session.ws_connect(f"{root.url}/ws") as socket:
        assert socket.protocol is None
        await socket.send_json({"type": "login", "id": 1, "token": root.token})
        assert (await socket.receive_json())["type"] == "ok"
    async with root.session.ws_connect(f"{root.url}/ws", protocols=["x", BINARY]) as socket:
        assert socket.protocol == BINARY
    # Compression is off unless a setting enables it.
    async with root.session.ws_connect(f"{root.url}/ws", compress=15) as socket:
        assert not socket.compress


async def test_pages_of_other_origins(start_server: StartServer, reach: Reach) -> None:
    settings = {"PUSH_ALLOWED_ORIGINS": "[https://shop.example]", "HTTP_ALLOWED_HOSTS": "a.example"}
    root = await reach(start_server(settings)).login()
    host = root.url.removeprefix("http://")
    for origin, status in (
        (f"http://{host}", 101),
        (f"http://{host.upper()}", 101),
        ("https://shop.example", 101),
        ("http://shop.example", 403),
        ("https://shop.example:8443", 403),
        ("https://shop.example.evil.example", 403),
        (f"http://{host}0", 403),
        (f"http://evil.example/{host}", 403),
        ("null", 403),
        ("", 403),
    ):
        assert await upgrade(root, Origin=origin) == status, origin
    assert await upgrade(root) == 101
    assert await upgrade(root, Origin="https://a.example", Host="a.example:443") == 101
    assert await upgrade(root, Origin="http://a.example", Host="a.example:443") == 403


async def test_any_origin_may_be_allowed(start_server: StartServer, reach: Reach) -> None:
    anonymous = reach(start_server({"PUSH_ALLOWED_ORIGINS": "[*]"}))
    assert await upgrade(anonymous, Origin="https://any.example") == 101


@pytest.mark.parametrize("end", ["logout", "user", "inactive", "password"])
async def test_a_token_that_is_good_no_more(root: Api, end: str) -> None:
    name = f"user-{end}"
    user = await root.create_user(name, rights("poll_messages"))
    topic = await root.create_topic(f"token-{end}")
    async with logged_in(user) as browser:
        await browser.subscribe(f"token-{end}")
        await root.ok("POST", f"{topic}/messages", batch(b"x"))
        assert await browser.payloads(1) == [b"x"]
        started = time.monotonic()
        if end == "logout":
            await user.ok("DELETE", "/users/logout")
        elif end == "user":
            await root.ok("DELETE", f"/users/{name}")
        elif end == "inactive":
            await root.ok("PUT", f"/users/{name}", {"status": "inactive"})
        else:
            change = {"current_password": name, "new_password": "another"}
            await user.ok("PUT", f"/users/{name}/password", change)
        assert await browser.closed() == 4401
        assert time.monotonic() - started < 20


@pytest.mark.long
async def test_a_token_expires_unless_it_is_renewed(start_server: StartServer, reach: Reach) -> None:
    settings = {"HTTP_JWT_ACCESS_TOKEN_EXPIRY": "14 s", "HTTP_JWT_CLOCK_SKEW": "0"}
    server = start_server(settings)
    root, again = await reach(server).login(), await reach(server).login()
    async with logged_in(root) as old, logged_in(root) as renewed, logged_in(again) as exchanged:
        # A token created now expires later than the first.
        await asyncio.sleep(6)
        token = (await root.ok("POST", "/users/refresh-token", {"token": again.token}))["access_token"]["token"]
        # The exchanged token is revoked. It must differ from the token of the connection that stays: otherwise that
        # connection could be closed before it presents the new token.
        await renewed.login(token)
        assert await exchanged.closed() == 4401
        assert await old.closed() == 4401
        await renewed.ask("ping")
        assert await renewed.closed() == 4401


async def test_a_token_of_another_user_is_no_renewal(root: Api) -> None:
    other = await root.create_user("somebody-else")
    async with logged_in(root) as browser:
        with pytest.raises(Refusal) as refusal:
            await browser.login(other.token)
        assert refusal.value.code == 78
        assert await browser.closed() == 4401


@pytest.mark.long
async def test_silence(start_server: StartServer, reach: Reach) -> None:
    # Limits that a pause of the client does not reach; the three connections wait for them side by side.
    settings = {"PUSH_HEARTBEAT_INTERVAL": "4 s", "PUSH_LOGIN_TIMEOUT": "8 s"}
    root = await reach(start_server(settings)).login()

    async def does_not_log_in() -> None:
        async with connected(root) as anonymous:
            assert await anonymous.closed() == 4408

    async def answers_pings() -> None:
        async with logged_in(root) as browser:
            # Answering pings keeps the connection alive; the client does so by itself.
            for _ in range(3):
                assert await browser.event("heartbeat") == {"type": "heartbeat"}
            await browser.ask("ping")

    async def answers_nothing() -> None:
        async with root.session.ws_connect(f"{root.url}/ws", autoping=False) as socket:
            await socket.send_json({"type": "login", "id": 1, "token": root.token})
            seen = set()
            while (message := await socket.receive(20)).type not in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}:
                seen.add(message.type)
            assert aiohttp.WSMsgType.PING in seen
            # The server's close frame: the library may report 1006.
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 4440)

    await asyncio.gather(does_not_log_in(), answers_pings(), answers_nothing())


async def test_too_many_connections(start_server: StartServer, reach: Reach) -> None:
    settings = {"PUSH_MAX_CONNECTIONS_PER_USER": "2", "PUSH_MAX_CONNECTIONS_PER_ADDRESS": "3"}
    root = await reach(start_server(settings)).login()
    other = await root.create_user("another-user")
    async with logged_in(root) as browser, logged_in(root):
        with pytest.raises(Closed) as end:
            async with logged_in(root):
                pass
        assert end.value.code == 4429
        await connections_are(root, 2)
        async with logged_in(other):
            with pytest.raises(Closed) as end:
                async with logged_in(other):
                    pass
            assert end.value.code == 4429
        await connections_are(root, 2)
        async with logged_in(other):
            await browser.ask("ping")
    await connections_are(root, 0)
    async with logged_in(root), logged_in(root):
        pass


async def test_too_many_of_other_things(start_server: StartServer, reach: Reach) -> None:
    settings = {
        "PUSH_MAX_MESSAGES_PER_SECOND": "50",
        "PUSH_MAX_SUBSCRIPTIONS": "2",
        "PUSH_MAX_PARTITIONS": "3",
        "PUSH_PARTITIONS_INTERVAL": "50 ms",
    }
    root = await reach(start_server(settings)).login()
    topic = await root.create_topic("limited", partitions=2)
    async with logged_in(root) as browser:
        await browser.subscribe("limited")
        with pytest.raises(Refusal) as refusal:
            await browser.subscribe("limited", number=2)
        assert refusal.value.code == 20001
        await browser.subscribe("limited", number=2, partitions=[0])
        with pytest.raises(Refusal) as refusal:
            await browser.subscribe("limited", number=3, partitions=[])
        assert refusal.value.code == 20001
        # The added partition exceeds the limit, which the server reports.
        await root.ok("POST", f"{topic}/partitions", {"partitions_count": 1})
        event = await browser.event("end")
        assert (event["subscription"], event["partition_id"], event["code"]) == (1, 2, 20001)
        # Topics count even if they have no partitions.
        await browser.ask("unsubscribe", subscription=2)
        topics = [{"stream": "limited", "topic": "t", "partitions": []}] * 4
        with pytest.raises(Refusal) as refusal:
            await browser.ask("subscribe", subscription=2, topics=topics)
        assert refusal.value.code == 20001
        # The burst is twice the rate, and fifty more are allowed for each second that sending takes, pauses included.
        with contextlib.suppress(ConnectionError):
            for _ in range(3000):
                await browser.send(type="credit", subscription=1)
        assert await browser.closed() == 4429


async def test_the_server_stops(server: ServerProcess, reach: Reach) -> None:
    root = await reach(server).login()
    await root.create_topic("stopped")
    async with logged_in(root) as browser, connected(root) as anonymous:
        await browser.subscribe("stopped")
        started = time.monotonic()
        stopped = asyncio.create_task(asyncio.to_thread(server.stop))
        assert await browser.closed() == 1001
        assert await anonymous.closed() == 1001
        assert await stopped == 0
        assert time.monotonic() - started < 20


async def test_it_can_be_turned_off(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"PUSH_ENABLED": "false"})).login()
    assert await upgrade(root) == 404


async def test_it_is_counted(root: Api) -> None:
    topic = await root.create_topic("metered")

    async def counters() -> dict[str, float]:
        text = (await root("GET", "/metrics")).body.decode()
        rows = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("headrace_push_"))
        return {name: float(value) for name, value in rows if "_created" not in name}

    async def until(expected: dict[str, Any]) -> None:
        async with asyncio.timeout(20):
            while True:
                now = await counters()
                found = {name: now.get(name, 0) - before.get(name, 0) for name in expected}
                if found == expected:
                    return
                await asyncio.sleep(0.05)

    # Connections of other tests end shortly after their tests.
    await connections_are(root, 0)
    before = await counters()
    async with logged_in(root) as browser:
        await browser.subscribe("metered", credit={"messages": 2, "bytes": 1000})
        await root.ok("POST", f"{topic}/messages", batch(b"a", b"b", b"c"))
        await browser.payloads(2)
        await browser.ask("produce", stream="metered", topic="t", messages=[{"payload": "eA=="}] * 2)
        await until(
            {
                "headrace_push_connections": 1,
                "headrace_push_subscriptions": 1,
                'headrace_push_messages_total{direction="out"}': 2,
                'headrace_push_bytes_total{direction="out"}': 130,
                'headrace_push_messages_total{direction="in"}': 2,
                "headrace_push_credit_stalls_total": 1,
            }
        )
    await until(
        {
            "headrace_push_connections": 0,
            "headrace_push_subscriptions": 0,
            'headrace_push_closed_total{code="1000"}': 1,
        }
    )
