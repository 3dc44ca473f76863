"""Access tokens of the requesting user."""

from __future__ import annotations

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import Page
from headrace_gateway.http.models.users import CreateTokenBody, RawToken, TokenAnswer
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Refused
from headrace_proto.errors import Status
from headrace_proto.limits import ACCESS_TOKEN_NAME_BYTES

routes = Routes()


@routes.add("GET", "/personal-access-tokens", tag="access tokens", query=Page, answer=list[TokenAnswer], has_etag=True)
async def get_personal_access_tokens(call: Call[Page, Nothing]) -> web.Response:
    """The caller's access tokens."""
    tokens = core.decode_access_tokens(await call.ask(core.encode_get_personal_access_tokens()))
    numbered = enumerate(sorted(tokens, key=lambda token: token.name))
    places = {token.name: place for place, token in numbered}
    answers = [TokenAnswer(token.name, token.expires_at_micros) for token in tokens]
    return page(call, sorted(answers, key=lambda token: token.name), lambda token: places[token.name])


@routes.add(
    "POST", "/personal-access-tokens", tag="access tokens", body=CreateTokenBody, answer=RawToken, errors=(400, 409)
)
async def create_personal_access_token(call: Call[Nothing, CreateTokenBody]) -> RawToken:
    """Create an access token of the caller. Only this answer contains its text."""
    if len(call.body.name.encode()) not in ACCESS_TOKEN_NAME_BYTES:
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME)
    encoded = core.encode_create_personal_access_token(name=call.body.name, expiry_micros=call.body.expiry or 0)
    return RawToken(core.decode_raw_access_token(await call.ask(encoded)))


@routes.add("DELETE", "/personal-access-tokens/{name}", tag="access tokens", success=204, errors=(400, 404))
async def delete_personal_access_token(call: Call[Nothing, Nothing]) -> None:
    """Delete an access token of the caller. Login tokens obtained with it end at once."""
    name = call.request.match_info["name"]
    if len(name.encode()) not in ACCESS_TOKEN_NAME_BYTES:
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME)
    await call.ask(core.encode_delete_personal_access_token(name=name))
