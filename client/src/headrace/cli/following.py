"""Following of new messages, for `headrace poll --follow`."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.cli import output
from headrace_core import Client, ServerError
from headrace_proto.commands import CommandCode
from headrace_proto.errors import Status

WAIT_SECONDS = 1.0
"""Maximum wait of one request, and thus the maximum delay until an interrupt takes effect."""
_PAUSE_SECONDS = 0.2


def can_wait(client: Client) -> bool:
    """Return whether the server supports requests that wait for messages. Otherwise the client polls repeatedly."""
    try:
        return CommandCode.READ_MESSAGES in client.capabilities().codes
    except ServerError as error:
        if error.code != Status.INVALID_COMMAND:
            raise
        return False


def warn_of_gap(partition: int, gap: tuple[int, int] | None) -> None:
    """Report messages that were deleted before they could be read, on standard error."""
    if gap is not None:
        start, end = gap
        removed = f"the messages from offset {start} to {end - 1}"
        output.stderr().print(f"partition {partition}: {removed} were removed before they could be read")


def pause() -> None:
    """Sleep before the server is asked again."""
    time.sleep(_PAUSE_SECONDS)


def at_once() -> None:
    """Do not sleep: the request itself has waited on the server."""


def until_news(client: Client, stream: int | str, topic: int | str, partitions: list[int]) -> Callable[[], None]:
    """Return a function that waits until any of these partitions has a change, or until a short timeout.

    Args:
        client: Logged-in client; not to be used for anything else from now on.
        stream: Existing stream.
        topic: Existing topic.
        partitions: Existing partitions.
    """
    watcher = client.watcher()
    watcher.add([(stream, topic, partitions)])

    def wait() -> None:
        watcher.next(WAIT_SECONDS)

    return wait
