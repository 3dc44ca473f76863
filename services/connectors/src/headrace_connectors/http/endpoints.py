"""Endpoints of the HTTP interface: what is served, and what its description is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
JSON: Final = "application/json"
TEXT: Final = "text/plain"
CONDITIONS: Final = {
    "If-Match": "ETag of the state that the change is meant for.",
    "If-None-Match": "`*`: make the change only if there is no such connector or mapping.",
}
AUTHOR_HEADER: Final = {"Headrace-Author": "Name of the author of the change, percent-encoded."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path. Its description is the docstring of its handler."""

    method: str
    path: str
    handler: Handler
    name: str
    """Id of the operation."""
    answer: Any = None
    """Type of the answer as JSON; None: text."""
    status: int = 200
    other_answers: Mapping[int, Any] = field(default_factory=dict)
    """Types of the answers with other statuses of success; None: without a body."""
    errors: tuple[int, ...] = ()
    """Statuses of refusals, besides those of the token and of the body."""
    body: Any = None
    """Type of the body as JSON; None: none."""
    is_body_needed: bool = True
    query: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of the parameters of the query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of the headers of the request."""
    is_public: bool = False
    """True if it needs no token."""

    @property
    def text(self) -> str:
        """Description."""
        return inspect.getdoc(self.handler) or ""

    @property
    def path_names(self) -> list[str]:
        """Names of the variable parts of the path."""
        return re.findall(r"{(\w+)}", self.path)
