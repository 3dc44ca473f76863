"""Pagination of lists: a page has the requested length, and a link leads to the next page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET

from headrace_gateway.http.call import Call
from headrace_gateway.http.models.catalog import Page

Item = TypeVar("Item")


def page(call: Call[Any, Any], items: list[Item], position: Callable[[Item], int]) -> web.Response:
    """Return a page of a list sorted by ``position``, which is unique.

    Without ``limit``, the page contains everything from the cursor on. Concurrent insertions and deletions do not shift
    other items.
    """
    query: Page = call.query
    begin = int(query.cursor) if query.cursor is not UNSET else 0
    rest = [item for item in items if position(item) >= begin]
    limit = query.limit if query.limit is not UNSET else len(rest)
    response = web.Response(body=msgspec.json.encode(rest[:limit]), content_type="application/json")
    if len(rest) > limit:
        cursor = position(rest[limit])
        url = call.request.rel_url.update_query(cursor=str(cursor))
        response.headers["Link"] = f'<{url}>; rel="next"'
    return response
