"""Which pages may connect: a browser says where a page comes from, and does so for any page."""

from __future__ import annotations

from aiohttp import hdrs, web


class Origins:
    """Those of this server itself, and those that are listed."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._any = allowed[:1] == ("*",)
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)

    def allow(self, request: web.Request) -> bool:
        """Whether whoever asks may connect. Programs that are no browsers name no origin."""
        found = request.headers.getall(hdrs.ORIGIN, [])
        if not found or self._any:
            return True
        origin = found[0].lower()
        return len(found) == 1 and (origin in self._allowed or _is_own(origin, request.headers.get(hdrs.HOST, "")))


def _is_own(origin: str, host: str) -> bool:
    """Whether the page came from where the request went to. In between TLS may have been taken off."""
    scheme, separator, place = origin.partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme)
    # A browser leaves the usual port out.
    return bool(separator) and usual is not None and place == host.lower().removesuffix(usual)
