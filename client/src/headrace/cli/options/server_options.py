"""Options that say which server a command works on, and as whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from headrace.cli.options import completing
from headrace.cli.parameters import Address
from headrace.cli.servers.http_target import url_of
from headrace.cli.servers.target import Target, target_of

_SERVER_HELP: Final = (
    "Address of the binary protocol: host, host:port, or tls://host:port?ca=FILE for TLS (all forms: "
    "docs/command-line.md).  [default: 127.0.0.1:8090]"
)


def with_target(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a server and credentials to a command, which gets a parameter `target`."""
    return _server_option(_credential_options(_resolved(function)))


def with_http_target(function: Callable[..., None]) -> Callable[..., None]:
    """Add the same options and the address of the HTTP API, for a command which gets `target` and `url`."""

    @click.option(
        "--url",
        envvar="HEADRACE_URL",
        help="Address of the HTTP API: http://host:port, or https://host:port.  [default: port 3000 of the server]",
    )
    @wraps(function)
    def command(*, target: Target, url: str | None, **arguments: Any) -> None:
        function(target=target, url=url if url is not None else url_of(target), **arguments)

    return with_target(command)


def with_server(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a server alone to a command that needs no login."""
    return _server_option(_resolved(function))


def _resolved(function: Callable[..., None]) -> Callable[..., None]:
    @wraps(function)
    def command(
        *,
        server: str | None = None,
        context: str | None = None,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        **arguments: Any,
    ) -> None:
        function(target=target_of(server, context, username, password, token), **arguments)

    return command


def _server_option(function: Callable[..., None]) -> Callable[..., None]:
    server = click.option("--server", "-s", envvar="HEADRACE_SERVER", type=Address(), help=_SERVER_HELP)
    context = click.option(
        "--context",
        envvar="HEADRACE_CONTEXT",
        shell_complete=completing.contexts,
        help="Context to use in place of the current one (headrace context list).",
    )
    return server(context(function))


def _credential_options(function: Callable[..., None]) -> Callable[..., None]:
    username = click.option("--username", "-u", envvar="HEADRACE_USERNAME", help="User to log in as.")
    password = click.option(
        "--password",
        envvar="HEADRACE_PASSWORD",
        help="Password; without it, a terminal is asked. Other users can see command lines: prefer HEADRACE_PASSWORD.",
    )
    token = click.option(
        "--token",
        envvar="HEADRACE_TOKEN",
        help="Personal access token to log in with, in place of a user. Prefer HEADRACE_TOKEN.",
    )
    return username(password(token(function)))
