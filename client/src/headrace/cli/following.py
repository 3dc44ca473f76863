"""Going on with what arrives, for `headrace poll --follow`."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.cli import output
from headrace_core import Client, ServerError
from headrace_proto.errors import Status

WAIT_SECONDS = 1.0
"""How long one request waits: after that long at most, an interruption that was noted is acted upon."""
_PAUSE_SECONDS = 0.2
_READ_MESSAGES = 10005


def can_wait(client: Client) -> bool:
    """Whether the server has requests that wait for messages. Others have to be asked again and again."""
    try:
        return _READ_MESSAGES in client.capabilities().codes
    except ServerError as error:
        if error.code != Status.INVALID_COMMAND:
            raise
        return False


def warn_of_gap(partition: int, gap: tuple[int, int] | None) -> None:
    """Report messages that were removed before they could be read, if there are any, beside the messages themselves."""
    if gap is not None:
        start, end = gap
        removed = f"the messages from offset {start} to {end - 1}"
        output.stderr().print(f"partition {partition}: {removed} were removed before they could be read")


def pause() -> None:
    """Let some time pass before the server is asked again."""
    time.sleep(_PAUSE_SECONDS)


def at_once() -> None:
    """Ask the server again: its answer has waited already."""


def until_news(client: Client, stream: int | str, topic: int | str, partitions: list[int]) -> Callable[[], None]:
    """Make a call that returns when any of these partitions has something new, or soon.

    Args:
        client: Logged in; used for nothing else from now on.
        stream: Exists.
        topic: Exists.
        partitions: All exist.
    """
    watcher = client.watcher()
    watcher.add([(stream, topic, partitions)])

    def wait() -> None:
        watcher.next(WAIT_SECONDS)

    return wait
