"""Access tokens and the tokens of logins, which hold at every gateway, and end at every gateway (CTL-9, GW-4, GW-8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace_core import decode_raw_access_token, encode_create_personal_access_token
from headrace_proto.gateway import v1
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.journeys.deployment.api_clients import (
    BinaryApi,
    GrpcApi,
    HttpApi,
    PushApi,
    Refused,
    WebSocketApi,
    called,
    http_login,
    http_token,
)
from tests.journeys.deployment.eventually import refused_soon
from tests.journeys.deployment.place import Account, Gateway, Place

OVER = (Status.UNAUTHENTICATED, Status.INVALID_ACCESS_TOKEN)
UNKNOWN = (Status.RESOURCE_NOT_FOUND, Status.INVALID_TOKEN)
"""Statuses for unknown access tokens: of the binary protocol, and of the other APIs."""


def by_binary(place: Place, gateway: Gateway, token: str, api: type[BinaryApi] = BinaryApi) -> None:
    """Log in with an access token and ask for something."""
    with api(gateway, place.root) as standing:
        standing.connection.ok(Code.LOGOUT_USER)
        status = standing.connection.status(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(token))
        if status != Status.OK:
            raise Refused(status)
        standing.connection.ok(Code.GET_STREAMS)


def by_websocket(place: Place, gateway: Gateway, token: str) -> None:
    """The same over WebSocket."""
    by_binary(place, gateway, token, WebSocketApi)


def by_http(place: Place, gateway: Gateway, token: str) -> None:
    """Exchange it for the token of a login."""
    with HttpApi(gateway, place.root, http_login(gateway, "/personal-access-tokens/login", {"token": token})) as api:
        api.ask("GET", "/streams")


def by_grpc(place: Place, gateway: Gateway, token: str) -> None:
    """Authenticate a gRPC call with the token."""
    with GrpcApi(gateway, place.root, token) as api:
        called(api.caller.catalog.ListStreams, v1.ListStreamsRequest())


def by_push(place: Place, gateway: Gateway, token: str) -> None:
    """Authenticate a WebSocket of the push API with the token."""
    with PushApi(gateway, place.root, token) as api:
        api.ask("ping")


def of_a_login_by_http(place: Place, gateway: Gateway, token: str) -> None:
    """Authenticate an HTTP request with the token of a login."""
    with HttpApi(gateway, place.root, token) as api:
        api.ask("GET", "/streams")


Use = Callable[[Place, Gateway, str], None]
EVERY_API: list[Use] = [by_binary, by_websocket, by_http, by_grpc, by_push]
APIS_OF_LOGINS: list[Use] = [of_a_login_by_http, by_grpc, by_push]


def test_an_access_token(place: Place, root: BinaryApi, name: str) -> None:
    """An access token is valid through every API of both gateways until it is deleted at one of them."""
    secret = decode_raw_access_token(root.connection.ok(*encode_create_personal_access_token(name=name)))
    for gateway in place.gateways:
        for use in EVERY_API:
            use(place, gateway, secret)
    with BinaryApi(place.there, place.root) as there:
        there.connection.ok(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name(name))
        with pytest.raises(Refused):
            by_binary(place, place.there, secret)
    for gateway in place.gateways:
        for use in EVERY_API:
            refused_soon(lambda use=use, gateway=gateway: use(place, gateway, secret), *OVER, *UNKNOWN)


@pytest.mark.parametrize("logout", ["http", "grpc"])
def test_a_login(place: Place, logout: str) -> None:
    """The token of a login is valid at the other gateway, and a logout there ends it at both."""
    token, other = http_token(place.here, place.root), http_token(place.here, place.root)
    for gateway in place.gateways:
        for use in APIS_OF_LOGINS:
            use(place, gateway, token)
    if logout == "http":
        with HttpApi(place.there, place.root, token) as api:
            api.ask("DELETE", "/users/logout")
    else:
        with GrpcApi(place.there, place.root, token) as api:
            called(api.caller.login.Logout, v1.LogoutRequest())
    for use in APIS_OF_LOGINS:
        with pytest.raises(Refused) as raised:
            use(place, place.there, token)
        assert raised.value.status in OVER
        refused_soon(lambda use=use: use(place, place.here, token), *OVER)
        use(place, place.here, other)


def test_a_token_is_exchanged_once(place: Place) -> None:
    """A second exchange is refused at every gateway."""
    old = http_token(place.here, place.root)
    new = http_login(place.there, "/users/refresh-token", {"token": old})
    for gateway in place.gateways:
        of_a_login_by_http(place, gateway, new)
        refused_soon(lambda gateway=gateway: of_a_login_by_http(place, gateway, old), *OVER)


def test_another_password_ends_logins_everywhere(place: Place, root: BinaryApi, name: str) -> None:
    """A password change ends logins at every gateway, and so does the deletion of the user."""
    account = Account(name, "a password")
    everything = frames.permissions(["read_streams"])
    root.connection.ok(Code.CREATE_USER, frames.create_user(name, account.password, everything))
    token = http_token(place.there, account)
    of_a_login_by_http(place, place.here, token)
    passwords = frames.name(account.password) + frames.name("another one")
    root.connection.ok(Code.CHANGE_PASSWORD, frames.ident(name) + passwords)
    for gateway in place.gateways:
        refused_soon(lambda gateway=gateway: of_a_login_by_http(place, gateway, token), *OVER)
    token = http_token(place.there, Account(name, "another one"))
    of_a_login_by_http(place, place.here, token)
    root.connection.ok(Code.DELETE_USER, frames.ident(name))
    for gateway in place.gateways:
        refused_soon(lambda gateway=gateway: of_a_login_by_http(place, gateway, token), *OVER)
