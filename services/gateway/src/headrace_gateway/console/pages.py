"""Serving of the console's files: read once at startup, so that requests do not access the file system."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aiohttp import hdrs, web

STATIC: Final = Path(__file__).parent / "static"
"""Output directory of the build of `web/console`."""

_INDEX: Final = "index.html"
# File names in this directory contain a hash of the content, so that a name never refers to different content.
_HASHED: Final = "console/"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_OF_PAGES: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_FOREVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    compressed: bytes
    content_type: str
    tag: str
    is_hashed: bool

    @classmethod
    def read(cls, path: Path, name: str) -> Self:
        body = path.read_bytes()
        return cls(
            body=body,
            compressed=gzip.compress(body, mtime=0),
            content_type=_TYPES[path.suffix],
            tag=hashlib.blake2b(body, digest_size=12).hexdigest(),
            is_hashed=name.startswith(_HASHED),
        )

    def answer(self, request: web.Request) -> web.Response:
        headers = dict(_OF_PAGES)
        headers[hdrs.VARY] = "Accept, Accept-Encoding"
        headers[hdrs.CACHE_CONTROL] = _FOREVER if self.is_hashed else "no-cache"
        if any(entry.value in {self.tag, "*"} for entry in request.if_none_match or ()):
            response = web.Response(status=304, headers=headers)
        else:
            headers[hdrs.CONTENT_TYPE] = self.content_type
            body = self.body
            if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "") and len(self.compressed) < len(body):
                headers[hdrs.CONTENT_ENCODING] = "gzip"
                body = self.compressed
            response = web.Response(body=body, headers=headers)
        response.etag = self.tag
        return response


class Console:
    """The console's files; empty if the console was not built or is disabled."""

    def __init__(self, files: Mapping[str, _File]) -> None:
        self._files = files
        self.paths = frozenset(f"/{name}" for name in files if name != _INDEX)
        """Paths that the console serves in addition to `/`."""

    @classmethod
    def load(cls, directory: Path = STATIC) -> Self:
        """Read the files."""
        found = (
            (path, path.relative_to(directory).as_posix()) for path in sorted(directory.rglob("*")) if path.is_file()
        )
        return cls({name: _File.read(path, name) for path, name in found})

    @classmethod
    def absent(cls) -> Self:
        """Return a disabled console."""
        return cls({})

    def page(self, request: web.Request) -> web.Response | None:
        """Return the page for a browser that requests `/`; None for other clients, which get the API's answer."""
        index = self._files.get(_INDEX)
        if index is None or "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            return None
        return index.answer(request)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one of `paths`."""
        return self._files[request.path.removeprefix("/")].answer(request)
