"""Logging in and out."""

from __future__ import annotations

from headrace_chassis.grpc.status import Refused
from headrace_gateway.access import logins
from headrace_gateway.access.access_tokens import AccessToken
from headrace_gateway.access.tokens import Bearer, InvalidToken, Issued, Tokens, TooManyRevocations
from headrace_gateway.grpc.calls import Caller
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_MICROS = 1_000_000


class Login:
    """``headrace.gateway.v1.Login``."""

    def __init__(self, checks: logins.Logins, tokens: Tokens) -> None:
        self._logins = checks
        self._tokens = tokens

    async def login(self, request: v1.LoginRequest, address: str) -> v1.LoginResponse:
        username = request.username
        login = LoginWithPassword(username=username, password=request.password.encode())
        made = await self._logins.with_password(login, address)
        if made.status == Status.TOO_MANY_LOGIN_ATTEMPTS:
            seconds = self._logins.retry_after_seconds(username, address)
            raise Refused(made.status, retry_after_seconds=seconds)
        return _response(made.user_id, self._issued_for(made))

    async def login_with_access_token(self, request: v1.LoginWithAccessTokenRequest, address: str) -> v1.LoginResponse:
        made = await self._logins.with_token(LoginWithToken(token=request.token), address)
        return _response(made.user_id, self._issued_for(made))

    async def refresh(self, _: v1.RefreshRequest, caller: Caller) -> v1.LoginResponse:
        bearer = _bearer(caller)
        try:
            issued = await self._tokens.exchange(bearer)
        except InvalidToken as error:
            raise Refused(Status.INVALID_ACCESS_TOKEN) from error
        except TooManyRevocations as error:
            raise _limited(error) from error
        return _response(bearer.user_id, issued)

    async def logout(self, _: v1.LogoutRequest, caller: Caller) -> v1.LogoutResponse:
        try:
            await self._tokens.revoke(_bearer(caller))
        except TooManyRevocations as error:
            raise _limited(error) from error
        return v1.LogoutResponse()

    def _issued_for(self, made: logins.Login) -> Issued:
        if made.status != Status.OK:
            raise Refused(made.status)
        return self._issued(made.user_id, made.password_version, made.access_token)

    def _issued(self, user_id: int, password_version: int | None, access_token: AccessToken | None) -> Issued:
        try:
            return self._tokens.issue(user_id, password_version, access_token)
        except InvalidToken as error:
            # The user was deleted since the lookup.
            raise Refused(Status.INVALID_CREDENTIALS) from error


def _bearer(caller: Caller) -> Bearer:
    if caller.bearer is None:
        raise Refused(Status.INVALID_COMMAND, "the call carries an access token instead of a login token")
    return caller.bearer


def _limited(error: TooManyRevocations) -> Refused:
    return Refused(
        Status.TOO_MANY_LOGIN_ATTEMPTS,
        "the user exchanges or revokes too many tokens (http.jwt.max_revocations_per_second)",
        retry_after_seconds=error.retry_after_seconds,
    )


def _response(user_id: int, issued: Issued) -> v1.LoginResponse:
    return v1.LoginResponse(user_id=user_id, token=issued.text, expires_at_micros=issued.expires_at * _MICROS)
