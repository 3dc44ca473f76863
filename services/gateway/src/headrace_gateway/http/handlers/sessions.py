"""Logging in and out."""

from __future__ import annotations

from typing import Final

from headrace_gateway.access.logins import Login
from headrace_gateway.access.tokens import InvalidToken, Issued, TooManyRevocations
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.users import AccessToken, IdentityInfo, LoginBody, TokenBody
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Limited, Refused
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken
from headrace_proto.errors import Status

routes = Routes()

LOGOUT: Final = ("DELETE", "/users/logout")
"""Method and path of the only request that also accepts an expired token."""


@routes.add(
    "POST", "/users/login", tag="login", body=LoginBody, answer=IdentityInfo, errors=(400, 401, 403), is_public=True
)
async def login_user(call: Call[Nothing, LoginBody]) -> IdentityInfo:
    """Log in with a password.

    The token of the answer goes into the header `Authorization: Bearer` of every other request. It ends when it
    expires, with a logout, and with the next change of the password.
    """
    logins, username, address = call.services.logins, call.body.username, call.address
    login = LoginWithPassword(username=username, password=call.body.password.encode())
    made = await logins.with_password(login, address)
    if made.status == Status.TOO_MANY_LOGIN_ATTEMPTS:
        # It is 0 if too many others wait.
        raise Limited(max(1.0, logins.retry_after_seconds(username, address)), status=made.status)
    return _identity(made.user_id, _issued(call, made))


@routes.add(
    "POST",
    "/personal-access-tokens/login",
    tag="login",
    body=TokenBody,
    answer=IdentityInfo,
    errors=(400, 401, 403, 404),
    is_public=True,
)
async def login_with_personal_access_token(call: Call[Nothing, TokenBody]) -> IdentityInfo:
    """Log in with an access token.

    The resulting token ends with the access token, too.
    """
    made = await call.services.logins.with_token(LoginWithToken(token=call.body.token), call.address)
    return _identity(made.user_id, _issued(call, made))


@routes.add(
    "POST", "/users/refresh-token", tag="login", body=TokenBody, answer=IdentityInfo, errors=(401,), is_public=True
)
async def refresh_token(call: Call[Nothing, TokenBody]) -> IdentityInfo:
    """Exchange a valid token for a new one. Each token can be exchanged once."""
    tokens = call.services.tokens
    try:
        bearer = await tokens.identify(call.body.token)
        issued = await tokens.exchange(bearer)
    except InvalidToken as error:
        raise Refused(Status.INVALID_ACCESS_TOKEN) from error
    except TooManyRevocations as error:
        raise Limited(error.retry_after_seconds) from error
    return _identity(bearer.user_id, issued)


@routes.add(*LOGOUT, tag="login", success=204)
async def logout_user(call: Call[Nothing, Nothing]) -> None:
    """Revoke the token of this request. Succeeds also if the token has expired."""
    if call.bearer is None:
        return
    try:
        await call.services.tokens.revoke(call.bearer)
    except TooManyRevocations as error:
        raise Limited(error.retry_after_seconds) from error


def _issued(call: Call[Nothing, LoginBody] | Call[Nothing, TokenBody], made: Login) -> Issued:
    if made.status != Status.OK:
        raise Refused(made.status)
    try:
        return call.services.tokens.issue(made.user_id, made.password_version, made.access_token)
    except InvalidToken as error:
        raise Refused(Status.INVALID_CREDENTIALS) from error


def _identity(user_id: int, issued: Issued) -> IdentityInfo:
    return IdentityInfo(user_id, AccessToken(issued.text, issued.expires_at))
