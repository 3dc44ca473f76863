"""Origin check: browsers send the origin of the connecting page, for any page."""

from __future__ import annotations

from aiohttp import hdrs, web


class Origins:
    """Accepts the origin of this server, and the listed ones."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._any = allowed[:1] == ("*",)
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)

    def allow(self, request: web.Request) -> bool:
        """Return whether the requesting page may connect. Programs other than browsers send no origin, and may."""
        found = request.headers.getall(hdrs.ORIGIN, [])
        if not found or self._any:
            return True
        origin = found[0].lower()
        return len(found) == 1 and (origin in self._allowed or _is_own(origin, request.headers.get(hdrs.HOST, "")))


def _is_own(origin: str, host: str) -> bool:
    """Return whether the origin is this server. The scheme is ignored because a proxy may have terminated TLS."""
    scheme, separator, place = origin.partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme)
    # Browsers omit the default port.
    return bool(separator) and usual is not None and place == host.lower().removesuffix(usual)
