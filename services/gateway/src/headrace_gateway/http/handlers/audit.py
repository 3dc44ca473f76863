"""The audit trail."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from headrace_gateway.audit.events import encoded
from headrace_gateway.audit.reading import AuditFilter, read
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.audit import AuditQuery
from headrace_gateway.http.routes import Nothing, Raw, Routes
from headrace_gateway.json_api.numbers import U64_MAX

routes = Routes()

_LINES: Final = "application/x-ndjson"


@routes.add(
    "GET",
    "/audit",
    tag="system",
    query=AuditQuery,
    answer=Raw(_LINES, {"type": "string"}),
    errors=(400, 403),
)
async def get_audit(call: Call[AuditQuery, Nothing]) -> web.Response:
    """The audit trail of this server or gateway, newest first, one JSON line per event.

    Logins, refusals for missing permissions, and changes of users, permissions, access tokens, streams, topics and
    consumer groups. Needs the permission to read the server.
    """
    await call.may_read_server()
    query, audit = call.query, call.services.logins.audit
    criteria = AuditFilter(
        since=query.since,
        until=query.until or U64_MAX,
        event=query.event,
        action=query.action,
        user=query.user,
        address=query.address,
        result=query.result,
    )
    found = await asyncio.to_thread(read, audit.directory, criteria, query.count) if audit is not None else []
    return web.Response(body=b"".join(map(encoded, found)), content_type=_LINES)
