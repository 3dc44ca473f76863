"""Connectors of a process that this server knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from headrace_connectors_api import (
    ConnectorAnswer,
    ConnectorHistoryAnswer,
    ConnectorVersionsAnswer,
    DestinationAnswer,
)
from headrace_gateway.connectors.reach import reach_of
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.connectors import ActivationBody, EpochQuery, NewVersionBody, NewVersionQuery
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Rejected
from headrace_proto.errors import Status

routes = Routes()
_READING = (403, 404, 502)
_CHANGING = (400, 403, 404, 409, 412, 502)
Answer = TypeVar("Answer")


@routes.add("GET", "/connectors", tag="connectors", answer=list[ConnectorAnswer], errors=_READING)
async def get_connectors(call: Call[Nothing, Nothing]) -> list[ConnectorAnswer]:
    """State and progress of all connectors. Needs the permission to read the server."""
    return await _read(call, list[ConnectorAnswer])


@routes.add("GET", "/connectors/{key}", tag="connectors", answer=ConnectorAnswer, errors=_READING)
async def get_connector(call: Call[Nothing, Nothing]) -> ConnectorAnswer:
    """State and progress of one connector. Needs the permission to read the server."""
    return await _read(call, ConnectorAnswer, _key(call))


@routes.add(
    "GET", "/connectors/{key}/destinations", tag="connectors", answer=list[DestinationAnswer], errors=(*_READING, 409)
)
async def get_connector_destinations(call: Call[Nothing, Nothing]) -> list[DestinationAnswer]:
    """Topics that a source writes to. Needs the permission to read the server."""
    return await _read(call, list[DestinationAnswer], _key(call), "destinations")


@routes.add("GET", "/connectors/{key}/history", tag="connectors", answer=ConnectorHistoryAnswer, errors=_READING)
async def get_connector_history(call: Call[Nothing, Nothing]) -> ConnectorHistoryAnswer:
    """Records per second and lag of the last hour. Needs the permission to read the server."""
    return await _read(call, ConnectorHistoryAnswer, _key(call), "history")


@routes.add("GET", "/connectors/{key}/versions", tag="connectors", answer=ConnectorVersionsAnswer, errors=_READING)
async def get_connector_versions(call: Call[Nothing, Nothing]) -> ConnectorVersionsAnswer:
    """Versions of the configuration, without secrets. Needs the permission to read the server."""
    return await _read(call, ConnectorVersionsAnswer, _key(call), "versions")


@routes.add(
    "POST",
    "/connectors/{key}/versions",
    tag="connectors",
    query=NewVersionQuery,
    body=NewVersionBody,
    answer=ConnectorVersionsAnswer,
    success=201,
    errors=_CHANGING,
)
async def create_connector_version(call: Call[NewVersionQuery, NewVersionBody]) -> ConnectorVersionsAnswer:
    """Change a connector, or create one: the definition is checked, stored as a version, and in effect.

    Secrets in it are references. With `check` it is only checked, and the answer has the present versions. Needs the
    permission to manage the server, to poll what a sink reads, and to send to what a source writes.
    """
    key, body = _key(call), msgspec.to_builtins(call.body)
    await call.may_manage_server()
    kind = call.body.kind or (await _versions(call)).versions[0].kind
    await call.may_connect(reach_of(kind, call.body.definition))
    if call.query.check:
        await _change(call, "CheckConnector", key, "versions", body=body, query={"check": "true"})
        return await _read(call, ConnectorVersionsAnswer, key, "versions")
    changed = await _change(call, "ChangeConnector", key, "versions", body=body, epoch=call.query.epoch)
    return _converted(changed, ConnectorVersionsAnswer)


@routes.add(
    "POST",
    "/connectors/{key}/versions/{number}/activate",
    tag="connectors",
    query=EpochQuery,
    body=ActivationBody,
    answer=ConnectorVersionsAnswer,
    errors=_CHANGING,
)
async def activate_connector_version(call: Call[EpochQuery, ActivationBody]) -> ConnectorVersionsAnswer:
    """Put a version into effect, such as an older one. Needs the permissions of its definition, as a change does."""
    await call.may_manage_server()
    number = call.number("number")
    for version in (await _versions(call)).versions:
        if version.number == number and version.definition is not None:
            await call.may_connect(reach_of(version.kind, version.definition))
    body = msgspec.to_builtins(call.body)
    parts = (_key(call), "versions", number, "activate")
    changed = await _change(call, "ActivateConnectorVersion", *parts, body=body, epoch=call.query.epoch)
    return _converted(changed, ConnectorVersionsAnswer)


@routes.add(
    "DELETE",
    "/connectors/{key}",
    tag="connectors",
    query=EpochQuery,
    answer=ConnectorVersionsAnswer,
    errors=_CHANGING,
)
async def delete_connector(call: Call[EpochQuery, Nothing]) -> ConnectorVersionsAnswer:
    """Stop and delete a connector. Its versions stay, and can be activated.

    Needs the permission to manage the server.
    """
    query = {"comment": call.query.comment}
    changed = await _change(call, "DeleteConnector", _key(call), method="DELETE", query=query, epoch=call.query.epoch)
    return _converted(changed, ConnectorVersionsAnswer)


@routes.add("POST", "/connectors/{key}/start", tag="connectors", answer=ConnectorAnswer, errors=_CHANGING)
async def start_connector(call: Call[Nothing, Nothing]) -> ConnectorAnswer:
    """Start a connector. Needs the permission to manage the server."""
    return _converted(await _change(call, "StartConnector", _key(call), "start"), ConnectorAnswer)


@routes.add("POST", "/connectors/{key}/stop", tag="connectors", answer=ConnectorAnswer, errors=_CHANGING)
async def stop_connector(call: Call[Nothing, Nothing]) -> ConnectorAnswer:
    """Stop a connector: what is in flight ends first. Needs the permission to manage the server."""
    return _converted(await _change(call, "StopConnector", _key(call), "stop"), ConnectorAnswer)


@routes.add("POST", "/connectors/{key}/restart", tag="connectors", answer=ConnectorAnswer, errors=_CHANGING)
async def restart_connector(call: Call[Nothing, Nothing]) -> ConnectorAnswer:
    """Stop a connector and start it again. Needs the permission to manage the server."""
    return _converted(await _change(call, "RestartConnector", _key(call), "restart"), ConnectorAnswer)


def _key(call: Call[Any, Any]) -> str:
    return call.request.match_info["key"]


async def _versions(call: Call[Any, Any]) -> ConnectorVersionsAnswer:
    answer = await call.services.connectors.ask("GET", "connectors", _key(call), "versions")
    return _converted(answer, ConnectorVersionsAnswer)


async def _read(call: Call[Any, Any], kind: type[Answer], *parts: str) -> Answer:
    await call.may_read_server()
    return _converted(await call.services.connectors.ask("GET", "connectors", *parts), kind)


async def _change(
    call: Call[Any, Any],
    action: str,
    *parts: str | int,
    method: str = "POST",
    body: Any = None,
    query: Mapping[str, str] | None = None,
    epoch: int | None = None,
) -> Any:
    """Send a change on behalf of a user who may manage the server, and record it in the audit trail."""
    username = await call.may_manage_server()
    headers = {"Headrace-Author": quote(username)}
    if epoch == 0:
        headers["If-None-Match"] = "*"
    elif epoch is not None:
        headers["If-Match"] = f'"{epoch}"'
    audit = call.services.logins.audit
    begun = None
    if audit is not None:
        subject: dict[str, object] = {"connector": parts[0], "call": "/".join(map(str, parts[1:]))}
        begun = await audit.begun(action, subject, user_id=call.user_id)
    try:
        answer = await call.services.connectors.ask(
            method, "connectors", *parts, body=body, query=query, headers=headers
        )
    except Rejected:
        if audit is not None:
            await audit.ended(begun, Status.ERROR)
        raise
    if audit is not None:
        await audit.ended(begun, Status.OK)
    return answer


def _converted(answer: Any, kind: type[Answer]) -> Answer:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise Rejected(502, f"The answer of the connectors cannot be read: {error}.") from error
