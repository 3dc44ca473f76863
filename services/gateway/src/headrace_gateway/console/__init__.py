"""The console: pages for browsers, built from `web/console` and served by the HTTP door."""

from headrace_gateway.console.pages import Console

__all__ = ["Console"]
