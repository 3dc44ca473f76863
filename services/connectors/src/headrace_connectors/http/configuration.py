"""Calls for configurations: versions of connectors and mappings, and changes of them.

GET    /connectors/{key}/versions                 versions without secrets, the newest first; with an ETag
POST   /connectors/{key}/versions                 makes a version and puts it into effect; `?check=true` checks it alone
POST   /connectors/{key}/versions/{n}/activate    puts a version into effect
POST   /connectors/{key}/rollback                 puts the version into effect that was active before
DELETE /connectors/{key}                          stops and deletes the connector; its versions stay

The same below /mappings/{name}; PUT /mappings/{name} takes a mapping alone. With `If-Match` a change is made only if
the state is still the one with that ETag, and with `If-None-Match: *` only if there is none.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from headrace_connectors.configuration.configurations import ANY_STATE, Apply, Condition, Configurations
from headrace_connectors.configuration.errors import ChangedMeanwhile, NotFound
from headrace_connectors.http.endpoints import AUTHOR_HEADER, CONDITIONS, Endpoint
from headrace_connectors.http.models import (
    ChangeBody,
    CommentBody,
    MappingsAnswer,
    TopicAnswer,
    ValidAnswer,
)
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_decoder
from headrace_connectors.versions import Author, Family, Kind, VersionLog
from headrace_connectors_api import ConnectorVersionsAnswer

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
AUTHOR: Final = "Headrace-Author"
"""Header with the name of the author of a change, percent-encoded."""
_DIGITS_MAX: Final = 9
# Python reads no number of thousands of digits.
_EPOCH_DIGITS_MAX: Final = 20
_CHANGE_ERRORS: Final = (409, 412, 413, 422, 503)
_CHECK: Final = {"check": "Check it, and change nothing."}
_COMMENT: Final = {"comment": "Reason of the change."}
_KINDS: Final[dict[str, Kind]] = {"source": "sources", "sink": "sinks", "mapping": "mappings"}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class ConfigurationCalls:
    """The calls.

    Args:
        configurations: All versions.
        apply: Puts the configuration of a connector into effect.
    """

    def __init__(self, configurations: Configurations, apply: Apply) -> None:
        self._all = configurations
        self._apply = apply

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints."""
        connector, mapping = _Family(self, "connectors"), _Family(self, "mappings")
        return [
            *connector.endpoints("/connectors/{key}"),
            *mapping.endpoints("/mappings/{key}"),
            Endpoint(
                method="GET", path="/mappings", handler=self.mappings, name="list_mappings", answer=MappingsAnswer
            ),
            Endpoint(
                method="GET",
                path="/mappings/{key}",
                handler=self.mapping,
                name="get_mapping",
                answer=dict[str, TopicAnswer],
                other_answers={304: None},
                errors=(404,),
                headers={"If-None-Match": "ETag of the mapping that is known."},
            ),
            Endpoint(
                method="PUT",
                path="/mappings/{key}",
                handler=self.put_mapping,
                name="put_mapping",
                body=dict[str, TopicAnswer],
                answer=ConnectorVersionsAnswer,
                status=201,
                other_answers={200: ValidAnswer},
                errors=_CHANGE_ERRORS,
                query=_CHECK | _COMMENT,
                headers=CONDITIONS | AUTHOR_HEADER,
            ),
        ]

    async def mappings(self, _request: web.Request) -> web.Response:
        """List the names of the mappings in effect."""
        return web.json_response({"mappings": self._all.mapping_names})

    async def mapping(self, request: web.Request) -> web.Response:
        """Return a mapping, for the transform `route`; its ETag is its epoch."""
        mapping, log = self._all.mapping(request.match_info["key"])
        entries = {value: {"stream": one.stream, "topic": one.topic} for value, one in mapping.items()}
        # The epochs of a file that is not recorded begin at 1 again with each start.
        digest = hashlib.blake2b(msgspec.json.encode(entries), digest_size=4).hexdigest()
        tag = f'"{log.epoch}-{digest}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.json_response(entries, headers=headers)

    async def put_mapping(self, request: web.Request) -> web.Response:
        """Replace a mapping as a whole, or make one."""
        definition = await _body(request, dict[str, Any])
        comment = request.query.get("comment", "")
        return await self.changed(request, "mappings", definition, comment, request.query.get("check"))

    async def changed(
        self, request: web.Request, kind: Kind, definition: dict[str, Any], comment: str, check: str | None
    ) -> web.Response:
        """Make a version, or only check it."""
        key = request.match_info["key"]
        if check == "true":
            self._all.check(kind, key, definition)
            return web.json_response({"is_valid": True})
        log = await self._all.change(kind, key, definition, _author(request, comment), _condition(request), self._apply)
        return self.answer(log, status=201)

    async def activated(self, request: web.Request, family: Family, number: int) -> web.Response:
        """Put a version into effect."""
        comment = (await _body(request, CommentBody)).comment if request.can_read_body else ""
        log = await self._all.activate(
            family, request.match_info["key"], number, _author(request, comment), _condition(request), self._apply
        )
        return self.answer(log)

    async def deleted(self, request: web.Request, family: Family) -> web.Response:
        """Delete a connector or mapping."""
        author = _author(request, request.query.get("comment", ""))
        log = await self._all.delete(family, request.match_info["key"], author, _condition(request), self._apply)
        return self.answer(log)

    async def catch_up(self) -> None:
        """Read what other processes have changed, so that an ETag is that of the newest state."""
        await self._all.catch_up()

    def log(self, request: web.Request, family: Family) -> VersionLog:
        """Return the versions of the connector or mapping of a request."""
        return self._all.log(family, request.match_info["key"])

    def answer(self, log: VersionLog, *, status: int = 200) -> web.Response:
        """Return all versions as the answer to a request."""
        active = log.active
        document = {
            "key": log.key,
            "epoch": log.epoch,
            "active": None if active is None else active.number,
            "is_deleted": active is None or active.definition is None,
            "is_changeable": self._all.are_changeable,
            "versions": [
                {
                    "number": one.number,
                    "at": _time(one.at),
                    "author": one.author,
                    "comment": one.comment,
                    "origin": one.origin,
                    "kind": _NAMES[one.kind],
                    "definition": self._all.shown(one),
                }
                for one in reversed(log.versions)
            ],
            "activations": [
                {"at": _time(one.at), "number": one.number, "author": one.author, "comment": one.comment}
                for one in reversed(log.activations)
            ],
        }
        return web.json_response(document, status=status, headers={"ETag": _tag(log), "Cache-Control": "no-cache"})


class _Family:
    def __init__(self, calls: ConfigurationCalls, family: Family) -> None:
        self._calls = calls
        self._family: Family = family

    def endpoints(self, path: str) -> list[Endpoint]:
        """Return the endpoints below a path."""
        name = self._family.removesuffix("s")
        changing: dict[str, Any] = {
            "answer": ConnectorVersionsAnswer,
            "errors": (404, *_CHANGE_ERRORS),
            "headers": CONDITIONS | AUTHOR_HEADER,
        }
        return [
            Endpoint(
                method="GET",
                path=f"{path}/versions",
                handler=self.versions,
                name=f"list_{name}_versions",
                answer=ConnectorVersionsAnswer,
                errors=(404, 503),
            ),
            Endpoint(
                method="POST",
                path=f"{path}/versions",
                handler=self.change,
                name=f"change_{name}",
                body=ChangeBody,
                answer=ConnectorVersionsAnswer,
                status=201,
                other_answers={200: ValidAnswer},
                errors=_CHANGE_ERRORS,
                query=_CHECK,
                headers=CONDITIONS | AUTHOR_HEADER,
            ),
            Endpoint(
                method="POST",
                path=f"{path}/versions/{{number}}/activate",
                handler=self.activate,
                name=f"activate_{name}_version",
                body=CommentBody,
                is_body_needed=False,
                **changing,
            ),
            Endpoint(
                method="POST",
                path=f"{path}/rollback",
                handler=self.roll_back,
                name=f"roll_{name}_back",
                body=CommentBody,
                is_body_needed=False,
                **changing,
            ),
            Endpoint(
                method="DELETE", path=path, handler=self.delete, name=f"delete_{name}", query=_COMMENT, **changing
            ),
        ]

    async def versions(self, request: web.Request) -> web.Response:
        """List the versions, the newest first; the ETag is for changes."""
        await self._calls.catch_up()
        return self._calls.answer(self._calls.log(request, self._family))

    async def change(self, request: web.Request) -> web.Response:
        """Make a version and put it into effect, or only check it.

        Nothing has changed if it is refused.
        """
        change = await _body(request, ChangeBody)
        await self._calls.catch_up()
        kind = self._kind(request, change)
        return await self._calls.changed(request, kind, change.definition, change.comment, request.query.get("check"))

    def _kind(self, request: web.Request, change: ChangeBody) -> Kind:
        if self._family == "mappings":
            return "mappings"
        if change.kind is not None:
            return _KINDS[change.kind]
        try:
            active = self._calls.log(request, self._family).active
        except NotFound:
            active = None
        if active is None:
            raise web.HTTPUnprocessableEntity(text='"kind" is not set: a new connector is a "source" or a "sink"')
        return active.kind

    async def activate(self, request: web.Request) -> web.Response:
        """Put a version into effect, such as an older one."""
        number = request.match_info["number"]
        if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX):
            raise NotFound(f"{request.match_info['key']} has no version {number!r}: versions have numbers")
        return await self._calls.activated(request, self._family, int(number))

    async def roll_back(self, request: web.Request) -> web.Response:
        """Put the version into effect that was active before."""
        await self._calls.catch_up()
        log = self._calls.log(request, self._family)
        if (previous := log.previous) is None:
            raise NotFound(f"{log.key} has no earlier active version to go back to")
        return await self._calls.activated(request, self._family, previous.number)

    async def delete(self, request: web.Request) -> web.Response:
        """Stop and delete it; its versions stay, and can be put into effect again."""
        return await self._calls.deleted(request, self._family)


async def _body(request: web.Request, kind: Any) -> Any:
    encoded = await request.read()
    try:
        return json_decoder(kind).decode(encoded or b"{}")
    except msgspec.ValidationError as error:
        raise web.HTTPUnprocessableEntity(text=f"the body has not the expected form: {error}") from error
    except NOT_JSON as error:
        raise web.HTTPBadRequest(text=f"the body is not JSON: {error}") from error


def _author(request: web.Request, comment: str) -> Author:
    name = unquote(request.headers.get(AUTHOR, "")).strip() or "http"
    return Author(name[:255], comment[:4096])


def _condition(request: web.Request) -> Condition:
    if request.headers.get("If-None-Match", "").strip() == "*":
        return Condition(0)
    expected = request.headers.get("If-Match", "").strip()
    if not expected or expected == "*":
        return ANY_STATE
    number = expected.strip('"').partition("-")[0]
    if not number.isdecimal() or len(number) > _EPOCH_DIGITS_MAX:
        raise ChangedMeanwhile(f"If-Match: {expected[:100]} is not the ETag of any state: read the versions again")
    return Condition(int(number))


def _tag(log: VersionLog) -> str:
    return f'"{log.epoch}"'


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
