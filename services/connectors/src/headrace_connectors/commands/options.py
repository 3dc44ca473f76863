"""Options and arguments of commands about connectors, and completion of their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from headrace.cli.errors import CommandError
from headrace.cli.options.completing import TIMEOUT_SECONDS, given_option, items
from headrace.cli.servers.http_target import Api

_Answer = TypeVar("_Answer")

_URL: Final = "http://127.0.0.1:8120"
# A change is answered when the connector has stopped, which may take as long as its commit.
_TIMEOUT_SECONDS: Final = 90.0


def plugin_names(*kinds: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completion with the names of installed plugins.

    Args:
        kinds: Some of `sources`, `sinks`, `transforms` and `codecs`.
    """

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        def names() -> list[tuple[str, str]]:
            from headrace_connectors.plugins.discovery import Plugins  # noqa: PLC0415 - it takes a while

            found: dict[str, list[str]] = {}
            for one in Plugins().installed():
                if one.kind in kinds:
                    found.setdefault(one.name, []).append(one.kind.removesuffix("s"))
            return [(name, ", ".join(of_name)) for name, of_name in sorted(found.items())]

        return items(names, incomplete)

    return complete


def _connector_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of the connectors of a process that runs."""

    def names() -> list[tuple[str, str]]:
        url, token = given_option(context, "url") or _URL, given_option(context, "token") or ""
        answer = Api(url, token=token, timeout_seconds=TIMEOUT_SECONDS).ask_json("GET", "/connectors")
        return [(one["key"], f"{one['kind']} {one['plugin']}, {one['state']}") for one in answer]

    return items(names, incomplete)


CONNECTOR_ARGUMENT: Final = click.argument("key", metavar="KEY", shell_complete=_connector_names)


def with_connectors(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options for a process with connectors to a command, which gets a parameter `api`."""

    @click.option(
        "--url",
        envvar="HEADRACE_CONNECTORS_URL",
        default=_URL,
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


def converted(document: Any, kind: type[_Answer]) -> _Answer:
    """Return the JSON of an answer as its type, without fields that are newer.

    Raises:
        CommandError: It is not that of connectors.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise CommandError(f"the answer of the connectors cannot be read: {error}") from error
