"""The list of routes: what each takes and gives, said once, for serving it and for describing it."""

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
    """The type of a JSON body; ``Nothing`` for none; ``bytes`` for one that the handler reads itself."""
    body_schemas: dict[str, Any]
    """JSON schemas of bodies that the handler reads itself, by media type."""
    headers: dict[str, Any] = field(default_factory=dict)
    """Headers that it takes, with their schemas."""
    answer: Any
    """The type of the answer; ``None`` for none; a media type with a schema where no type describes it."""
    success: int
    errors: tuple[int, ...]
    """Statuses of refusals that are particular to it."""
    is_public: bool
    """Needs no token."""
    has_etag: bool

    @property
    def name(self) -> str:
        """The handler's name, which is that of the operation."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The first line of what the handler says of itself."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of it, in paragraphs."""
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
    """Collects routes, in the order in which they are written down."""

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
        """Register the handler below as what serves this method of this path."""

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
    """A whole answer of text."""
    return web.Response(text=text, content_type=media_type, charset="utf-8")
