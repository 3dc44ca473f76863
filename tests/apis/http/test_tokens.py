"""Login, and lifetime of tokens (GW-4, CTL-9)."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest

from tests.apis.http.api import Api, rights
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME

SECRET = "0123456789abcdef0123456789abcdef-only-for-tests"
ISSUER = AUDIENCE = "headrace"


async def test_a_login_gives_a_token(anonymous: Api) -> None:
    before = int(time.time())
    body = {"username": USERNAME, "password": PASSWORD, "version": "1", "context": "2"}
    identity = await anonymous.ok("POST", "/users/login", body)
    assert identity.keys() == {"user_id", "access_token"}
    assert identity["user_id"] == 0
    assert before + 3590 <= identity["access_token"]["expiry"] <= time.time() + 3600
    claims = jwt.decode(identity["access_token"]["token"], options={"verify_signature": False})
    assert {"jti", "iss", "aud", "sub", "iat", "nbf", "exp"} <= claims.keys()
    assert (claims["sub"], claims["exp"]) == ("0", identity["access_token"]["expiry"])
    assert PASSWORD not in str(claims)


@pytest.mark.parametrize(
    ("username", "password", "status", "code"),
    [
        (USERNAME, "wrong", 400, 42),
        ("nobody-here", PASSWORD, 400, 42),
        ("x", PASSWORD, 400, 43),
        (USERNAME, "", 400, 44),
    ],
)
async def test_refused_logins(anonymous: Api, username: str, password: str, status: int, code: int) -> None:
    answer = await anonymous("POST", "/users/login", {"username": username, "password": password})
    assert (answer.status, answer.code) == (status, code)


async def test_an_inactive_user_may_not_log_in(root: Api, anonymous: Api) -> None:
    body = {"username": "sleeper", "password": "sleeper", "status": "inactive"}
    await root.ok("POST", "/users", body)
    answer = await anonymous("POST", "/users/login", {"username": "sleeper", "password": "sleeper"})
    assert (answer.status, answer.code) == (400, 47)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Bearer x.y.z", "Basic aWdneTppZ2d5", "Bearer {} more"])
async def test_what_is_no_token(root: Api, anonymous: Api, header: str) -> None:
    for path in ("/streams", "/nothing", "/users/logout", "/snapshot"):
        answer = await anonymous("GET", path, headers={"Authorization": header.format(root.token)})
        assert (answer.status, answer.code, answer.headers["WWW-Authenticate"]) == (401, 40, "Bearer")


async def test_logout_ends_one_token(root: Api, anonymous: Api) -> None:
    one, other = await anonymous.login(), await anonymous.login()
    assert (await one("DELETE", "/users/logout")).status == 204
    assert (await one("GET", "/streams")).status == 401
    assert (await one("POST", "/users/refresh-token", {"token": one.token})).status == 401
    assert (await other("GET", "/streams")).status == 200
    assert (await one("DELETE", "/users/logout")).status == 204, "it has ended already"
    assert (await one("GET", "/users/logout")).status == 401
    for nothing in (None, "x.y.z", f"{other.token}x"):
        assert (await anonymous("DELETE", "/users/logout", token=nothing)).status == 401


async def test_a_token_is_exchanged_once(anonymous: Api) -> None:
    old = await anonymous.login()
    identity = await anonymous.ok("POST", "/users/refresh-token", {"token": old.token})
    new = identity["access_token"]["token"]
    assert identity["user_id"] == 0
    assert (await anonymous("GET", "/streams", token=new)).status == 200
    assert (await old("GET", "/streams")).status == 401
    answer = await anonymous("POST", "/users/refresh-token", {"token": old.token})
    assert (answer.status, answer.code) == (401, 78)
    assert old.token is not None
    assert old.token.encode() not in answer.body


@pytest.mark.parametrize(
    ("path", "body", "is_over"),
    [
        ("/users/{0}", {"status": "inactive"}, True),
        ("/users/{0}/password", {"current_password": "{0}", "new_password": "other"}, True),
        ("/users/{0}", None, True),
        ("/users/{0}", {"username": "{0}-renamed"}, False),
        ("/users/{0}/permissions", {"permissions": rights("read_streams", "read_users")}, False),
    ],
)
async def test_what_ends_tokens_at_once(
    root: Api, path: str, body: dict[str, Any] | None, is_over: bool, request: pytest.FixtureRequest
) -> None:
    """The reference server accepts these tokens until they expire."""
    name = f"user-{abs(hash(request.node.name)) % 10**6}"
    user = await root.create_user(name, rights("read_streams"))
    assert (await user("GET", "/streams")).status == 200
    if body is not None:
        body = {key: value.format(name) if isinstance(value, str) else value for key, value in body.items()}
    await root.ok("PUT" if body is not None else "DELETE", path.format(name), body)
    assert (await user("GET", "/streams")).status == (401 if is_over else 200)
    answer = await user("POST", "/users/refresh-token", {"token": user.token})
    assert answer.status == (401 if is_over else 200)
    assert (await user("DELETE", "/users/logout")).status == 204


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {"jti": "made", "iss": ISSUER, "aud": AUDIENCE, "sub": "0", "iat": now, "nbf": now, "exp": now + 60}
    return {name: value for name, value in (made | changes).items() if value is not None}


async def test_rules_for_tokens(start_server: StartServer, reach: Reach) -> None:
    """A holder of the secret may sign tokens; the server checks every rule on them."""
    server = start_server({"HTTP_JWT_ENCODING_SECRET": SECRET, "HTTP_JWT_CLOCK_SKEW": "1 m"})
    anonymous = reach(server)
    now = int(time.time())

    async def status(algorithm: str = "HS256", key: str = SECRET, **changes: Any) -> int:
        token = jwt.encode(claims(**changes), key if algorithm != "none" else None, algorithm)
        return (await anonymous("GET", "/streams", token=token)).status

    assert await status() == 200
    for good in ({"nbf": now + 1000}, {"exp": now - 2}, {"aud": ["x", AUDIENCE]}, {"iat": now + 1000}):
        assert await status(**good) == 200, good
    for name in ("jti", "iss", "aud", "sub", "iat", "nbf", "exp"):
        assert await status(**{name: None}) == 401, name
    for bad in (
        {"exp": now - 61},
        {"iss": "x"},
        {"aud": "x"},
        {"sub": "4711"},
        {"sub": "-1"},
        {"sub": "root"},
        {"sub": str(2**32)},
        {"exp": "soon"},
        {"pwd": "0" * 32},
        {"pat": "no digest"},
        {"pat": "00" * 32},
    ):
        assert await status(**bad) == 401, bad
    assert await status(key="another secret of thirty-two bytes, at least") == 401
    assert await status(algorithm="none") == 401
    assert await status(algorithm="HS512", key=SECRET * 2) == 401


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
async def test_revocations_survive_a_restart(start_server: StartServer, reach: Reach, algorithm: str) -> None:
    server = start_server({"HTTP_JWT_DECODING_SECRET": SECRET * 2, "HTTP_JWT_ALGORITHM": algorithm})
    one, other = await reach(server).login(), await reach(server).login()
    assert jwt.get_unverified_header(one.token or "")["alg"] == algorithm
    assert (await one("DELETE", "/users/logout")).status == 204
    server.restart(kill=True)
    anonymous = reach(server)
    assert (await anonymous("GET", "/streams", token=one.token)).status == 401
    assert (await anonymous("GET", "/streams", token=other.token)).status == 200


async def test_tokens_end_with_the_process_when_there_is_no_secret(start_server: StartServer, reach: Reach) -> None:
    server = start_server()
    root = await reach(server).login()
    server.restart()
    assert (await reach(server)("GET", "/streams", token=root.token)).status == 401


async def test_tokens_expire(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_JWT_ACCESS_TOKEN_EXPIRY": "1 s", "HTTP_JWT_CLOCK_SKEW": "0"})
    root = await reach(server).login()
    deadline = time.monotonic() + 60
    while (await root("GET", "/ping")).status == 200 and (await root("GET", "/streams")).status == 200:
        assert time.monotonic() < deadline
    assert (await root("POST", "/users/refresh-token", {"token": root.token})).status == 401
    assert (await root("DELETE", "/users/logout")).status == 204


async def test_a_user_who_exchanges_without_end_is_slowed_down(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"HTTP_JWT_MAX_REVOCATIONS_PER_SECOND": "1"})).login()
    token = root.token
    # A burst of a hundred, and one more for each second of the loop.
    for _ in range(1000):
        answer = await root("POST", "/users/refresh-token", {"token": token})
        if answer.status != 200:
            break
        token = answer.data["access_token"]["token"]
    assert answer.status == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 2
    assert (await root("GET", "/streams", token=token)).status == 200


async def test_guessing_gets_slow(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"LOGIN_FAILURES_MAX": "3", "LOGIN_FAILURES_INTERVAL": "1 h"})
    anonymous = reach(server)
    wrong = {"username": USERNAME, "password": "wrong"}
    assert [(await anonymous("POST", "/users/login", wrong)).code for _ in range(3)] == [42] * 3
    for body in (wrong, {"username": USERNAME, "password": PASSWORD}):
        answer = await anonymous("POST", "/users/login", body)
        assert (answer.status, answer.code) == (429, 20000)
        assert 0 < int(answer.headers["Retry-After"]) <= 3600
