"""The newest records of the server's log."""

from __future__ import annotations

import logging

from headrace_gateway.http.call import Call
from headrace_gateway.http.models.logs import LogAnswer, LogsAnswer, LogsQuery
from headrace_gateway.http.routes import Nothing, Routes

routes = Routes()


@routes.add("GET", "/logs", tag="system", query=LogsQuery, answer=LogsAnswer, errors=(400, 403))
async def get_logs(call: Call[LogsQuery, Nothing]) -> LogsAnswer:
    """The newest records of the server's log, or those after `after`.

    With `wait_ms`, an answer without records is delayed until there is one. Ask again with `last` as `after` to follow
    the log; records dropped before they were read are counted in `missed`. Needs the permission to read the server.
    """
    await call.may_read_server()
    query, logs = call.query, call.services.logs
    # A number higher than any here was read from an earlier run of the server.
    after = query.after if query.after <= logs.last else 0
    level = logging.getLevelNamesMapping()[query.level.upper()]

    def has_some() -> bool:
        return bool(logs.after(after, count=1, level=level))

    await call.services.waits.until(call.request, call.user_id, has_some, query.wait_ms / 1000)
    oldest, last = logs.oldest, logs.last
    records = logs.after(after, count=query.count, level=level)
    return LogsAnswer(
        records=[LogAnswer.of(record) for record in records],
        last=records[-1].sequence if len(records) == query.count else last,
        missed=max(0, oldest - after - 1) if after else 0,
    )
