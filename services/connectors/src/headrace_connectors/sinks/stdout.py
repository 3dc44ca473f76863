"""The sink `stdout`: one line of JSON for each message, for trying things out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace_connectors.contract import Place, Received, Settings, Sink
from headrace_connectors.sinks.json_values import encoded, key_text


class Stdout(Sink):
    """Writes lines with the place and the payload of each message to the standard output of the process."""

    settings_type: ClassVar[type[Settings]] = Settings

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings

    async def write(self, messages: Sequence[Received]) -> None:
        """Write lines."""
        sys.stdout.write("".join(f"{line.decode()}\n" for line in encoded(messages, _document)))

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Hand the lines to the system."""
        del positions
        sys.stdout.flush()


def _document(message: Received) -> dict[str, Any]:
    place = message.place
    return {
        "stream": place.stream,
        "topic": place.topic,
        "partition": place.partition,
        "offset": message.offset,
        "key": key_text(message),
        "payload": message.record.payload,
    }
