"""Users and access tokens (GW-4, CTL-9)."""

from __future__ import annotations

import json

import pytest

from tests.apis.http.api import NO_RIGHTS, Api, rights

STREAM_RIGHTS = dict.fromkeys(
    ("manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages"), False
)
TOPIC_RIGHTS = dict.fromkeys(("manage_topic", "read_topic", "poll_messages", "send_messages"), False)


async def test_a_user_from_beginning_to_end(root: Api) -> None:
    permissions = {
        "global": NO_RIGHTS | {"read_users": True},
        "streams": {"3": STREAM_RIGHTS | {"read_stream": True, "topics": {"5": TOPIC_RIGHTS | {"read_topic": True}}}},
    }
    new = {"username": "ann", "password": "secret", "status": "active", "permissions": permissions}
    created = await root.ok("POST", "/users", new)
    assert created.keys() == {"id", "created_at", "status", "username", "permissions"}
    assert created["permissions"] == permissions
    path = f"/users/{created['id']}"
    assert await root.ok("GET", path) == created == await root.ok("GET", "/users/ann")
    listed = await root.ok("GET", "/users")
    assert {key: created[key] for key in ("id", "created_at", "status", "username")} in listed

    assert (await root("PUT", path, {"username": "anna"})).status == 204
    assert (await root("PUT", f"{path}/permissions", {"permissions": None})).status == 204
    changed = await root.ok("GET", path)
    assert (changed["username"], changed["permissions"]) == ("anna", None)
    assert (
        await root("PUT", f"{path}/password", {"current_password": "secret", "new_password": "other"})
    ).status == 204
    assert (await root("PUT", f"{path}/password", {"current_password": "secret", "new_password": "x" * 3})).code == 42
    await root.login("anna", "other")
    assert (await root("DELETE", path)).status == 204
    assert (await root("GET", path)).status == 404
    assert (await root("DELETE", path)).code == 20


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/users", {"username": "iggy", "password": "secret", "status": "active"}, 400, 46),
        ("DELETE", "/users/0", None, 400, 48),
        ("PUT", "/users/0/permissions", {"permissions": None}, 400, 49),
        ("PUT", "/users/iggy/password", {"current_password": "wrong", "new_password": "other"}, 400, 42),
        ("POST", "/users", {"username": "äö" * 13, "password": "secret", "status": "active"}, 400, 43),
        ("POST", "/users", {"username": "x", "password": "secret", "status": "active"}, 400, 43),
        ("POST", "/users", {"username": "ann", "password": "", "status": "active"}, 400, 44),
        ("POST", "/personal-access-tokens", {"name": "ci", "expiry": 0}, 400, 50),
        ("DELETE", "/personal-access-tokens/never-made", None, 404, 20),
        ("DELETE", "/personal-access-tokens/x", None, 400, 50),
    ],
)
async def test_refusals(root: Api, method: str, path: str, body: object, status: int, code: int) -> None:
    answer = await root(method, path, body)
    assert (answer.status, answer.code) == (status, code)


async def test_a_user_without_permissions_sees_itself(root: Api) -> None:
    guest = await root.create_user("lonely")
    own = await guest.ok("GET", "/users/lonely")
    assert own["permissions"] is None
    for path in ("/users", "/users/0", "/streams", "/stats", "/clients"):
        answer = await guest("GET", path)
        assert (answer.status, answer.data["code"]) == (403, "unauthorized"), path
    assert (
        await guest("PUT", "/users/lonely/password", {"current_password": "lonely", "new_password": "new"})
    ).status == 204


async def test_access_tokens(root: Api, anonymous: Api) -> None:
    owner = await root.create_user("owner", rights("read_streams"))
    token = (await owner.ok("POST", "/personal-access-tokens", {"name": "build", "expiry": 0}))["token"]
    await owner.ok("POST", "/personal-access-tokens", {"name": "later", "expiry": 3_600_000_000})
    listed = await owner.ok("GET", "/personal-access-tokens")
    assert [(entry["name"], entry["expiry_at"] is None) for entry in listed] == [("build", True), ("later", False)]
    assert token not in json.dumps(listed)
    assert (await owner("POST", "/personal-access-tokens", {"name": "build", "expiry": 0})).code == 51
    identity = await anonymous.ok("POST", "/personal-access-tokens/login", {"token": token})
    assert identity["user_id"] == (await owner.ok("GET", "/users/owner"))["id"]
    by_token = identity["access_token"]["token"]
    assert (await anonymous("GET", "/streams", token=by_token)).status == 200
    assert (await owner("DELETE", "/personal-access-tokens/build")).status == 204
    assert (await anonymous("GET", "/streams", token=by_token)).status == 401


async def test_an_unknown_access_token_is_not_repeated(anonymous: Api) -> None:
    """The reference server echoes the token in the error."""
    for token in ("a-secret-that-nobody-should-see", "s" * 300, ""):
        answer = await anonymous("POST", "/personal-access-tokens/login", {"token": token})
        assert (answer.status, answer.code) == (404, 20)
        assert not token or token.encode() not in answer.body
