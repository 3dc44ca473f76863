"""Arguments that many commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from headrace.cli.options import completing

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

STREAM_ARGUMENT: Final[_Decorator] = click.argument("stream", metavar="STREAM", shell_complete=completing.streams)
TOPIC_ARGUMENT: Final[_Decorator] = click.argument("topic", metavar="TOPIC", shell_complete=completing.topics)
GROUP_ARGUMENT: Final[_Decorator] = click.argument("group", metavar="GROUP", shell_complete=completing.groups)
USER_ARGUMENT: Final[_Decorator] = click.argument("user", metavar="USER", shell_complete=completing.users)
