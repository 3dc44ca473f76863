"""The console: web pages built from `web/console` and served by the HTTP listener."""

from headrace_gateway.console.pages import Console

__all__ = ["Console"]
