"""Options of commands that ask a process with connectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from headrace.cli.options import completing
from headrace.cli.servers.http_target import Api

CONNECTOR_ARGUMENT: Final = click.argument("key", metavar="KEY", shell_complete=completing.connectors)
# A change is answered when the connector has stopped, which may take as long as its commit.
_TIMEOUT_SECONDS: Final = 90.0


def with_connectors(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a process with connectors to a command, which gets a parameter `api`."""

    @click.option(
        "--url",
        envvar="HEADRACE_CONNECTORS_URL",
        default=completing.CONNECTORS_URL,
        show_default=True,
        help="Address of the connectors' HTTP interface, the setting http.address.",
    )
    @click.option(
        "--token",
        envvar="HEADRACE_CONNECTORS_TOKEN",
        default="",
        help="Token of the interface, the setting http.token. Prefer HEADRACE_CONNECTORS_TOKEN.",
    )
    @wraps(function)
    def command(*, url: str, token: str, **arguments: Any) -> None:
        api = Api(
            url,
            name="the connectors' HTTP interface",
            variable="HEADRACE_CONNECTORS_URL",
            token=token,
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        function(api=api, **arguments)

    return command
