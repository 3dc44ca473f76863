"""Following of new messages, for `headrace poll --follow`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace_core import Client, ConnectionLost, CoreError, ServerError
from headrace_proto.commands import CommandCode

WAIT_SECONDS = 1.0
"""Maximum wait of one request, and thus the maximum delay until an interrupt takes effect."""
_PAUSE_SECONDS: Final = 0.2
_RECONNECT_PAUSE_SECONDS_MAX: Final = 5.0
# Statuses of a server that is shutting down, or that does not know the connection any more.
_ENDED: Final = frozenset({"Disconnected", "StaleClient", "Unauthenticated"})


def can_wait(client: Client) -> bool:
    """Return whether the server supports requests that wait for messages. Otherwise the client polls repeatedly."""
    try:
        return CommandCode.READ_MESSAGES in client.capabilities().codes
    except ServerError as error:
        if error.name != "InvalidCommand":
            raise
        return False


def warn_of_gap(partition: int, gap: tuple[int, int] | None) -> None:
    """Report messages that were deleted before they could be read, on standard error."""
    if gap is not None:
        start, end = gap
        removed = f"the messages from offset {start} to {end - 1}"
        output.say(f"partition {partition}: {removed} were removed before they could be read")


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


def persistently(session: Callable[[], None]) -> None:
    """Run a session until it ends by itself; begin it again whenever its connection ends, with a note.

    Args:
        session: Connects, and continues after what earlier sessions have done.

    Raises:
        CoreError: The server refused something, which would be refused again.
        CommandError: The first connection failed, or a later one for another reason than that no server answers.
    """
    pauses: Iterator[float] = iter(())
    was_connected = False
    while True:
        try:
            session()
        except (CoreError, CommandError) as error:
            lost = _lost_connection(error)
            if lost is None or (isinstance(error, CommandError) and not was_connected):
                raise
            if not isinstance(error, CommandError):
                was_connected = True
                output.say(f"the connection was lost ({lost}); reconnecting, Ctrl-C ends this")
                pauses = _pauses()
            time.sleep(next(pauses, _RECONNECT_PAUSE_SECONDS_MAX))
        else:
            return


def _lost_connection(error: Exception) -> str | None:
    """Return why a connection ended; None for other failures."""
    cause = error.__cause__ if isinstance(error, CommandError) else error
    if isinstance(cause, ConnectionLost):
        return str(cause)
    if isinstance(cause, ServerError) and cause.name in _ENDED:
        return "the server is shutting down" if cause.name == "Disconnected" else str(cause)
    return None


def _pauses() -> Iterator[float]:
    seconds = _PAUSE_SECONDS
    while True:
        yield seconds
        seconds = min(2 * seconds, _RECONNECT_PAUSE_SECONDS_MAX)
