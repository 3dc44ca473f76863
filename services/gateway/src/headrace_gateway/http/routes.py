"""Route definitions: input and output of each route, used for serving and for the API description."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web

from headrace_gateway.http.call import Call

Handler = Callable[[Call[Any, Any]], Awaitable[Any]]

JSON: Final = "application/json"


class Nothing(msgspec.Struct):
    """No query, or no body."""


NOTHING: Final = Nothing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    tag: str
    query: type[msgspec.Struct]
    body: Any
    """Type of a JSON body; ``Nothing`` for none; ``bytes`` if the handler reads the body itself."""
    body_schemas: dict[str, Any]
    """JSON schemas of bodies that the handler reads itself, by media type."""
    headers: dict[str, Any] = field(default_factory=dict)
    """Request headers with their schemas."""
    answer: Any
    """Type of the answer; ``None`` for none; a media type with a schema if no type describes it."""
    success: int
    errors: tuple[int, ...]
    """Error statuses specific to the route."""
    is_public: bool
    """True if the route needs no token."""
    has_etag: bool

    @property
    def name(self) -> str:
        """Name of the handler, used as operation id."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """First line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """Rest of the handler's docstring, in paragraphs."""
        text = (self.handler.__doc__ or "").strip().partition("\n")[2]
        return re.sub(r"(?<!\n)\n\s*(?!\n|\s)", " ", text).strip()

    @property
    def path_names(self) -> list[str]:
        """Names of the variable parts of the path."""
        return re.findall(r"{(\w+)}", self.path)


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that no type describes: its media type and its JSON schema."""

    media_type: str
    schema: dict[str, Any]


class Routes:
    """Collects routes in the order of their definition."""

    def __init__(self) -> None:
        self.all: list[Route] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        tag: str,
        query: type[msgspec.Struct] = Nothing,
        body: Any = Nothing,
        body_schemas: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        answer: Any = None,
        success: int = 200,
        errors: tuple[int, ...] = (),
        is_public: bool = False,
        has_etag: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a method and path."""

        def register(handler: Handler) -> Handler:
            self.all.append(
                Route(
                    method=method,
                    path=path,
                    handler=handler,
                    tag=tag,
                    query=query,
                    body=body,
                    body_schemas=body_schemas or {},
                    headers=headers or {},
                    answer=answer,
                    success=success,
                    errors=errors,
                    is_public=is_public,
                    has_etag=has_etag,
                )
            )
            return handler

        return register


def text_answer(text: str, *, media_type: str = "text/plain") -> web.Response:
    """Return a complete text answer."""
    return web.Response(text=text, content_type=media_type, charset="utf-8")
