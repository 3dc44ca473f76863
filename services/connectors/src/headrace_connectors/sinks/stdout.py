"""The sink `stdout`: one line of JSON for each message, for trying things out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from headrace_connectors.contract import InvalidRecord, Place, Received, Settings, Sink


class Stdout(Sink):
    """Writes lines with the place and the payload of each message to the standard output of the process."""

    settings_type: ClassVar[type[Settings]] = Settings

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings
        self._encoder = msgspec.json.Encoder(decimal_format="string")

    async def write(self, messages: Sequence[Received]) -> None:
        """Write lines."""
        lines = []
        for index, message in enumerate(messages):
            try:
                lines.append(self._encoder.encode(_document(message)).decode())
            except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
                raise InvalidRecord(f"the payload has no form in JSON: {error}", index=index) from error
        sys.stdout.write("".join(f"{line}\n" for line in lines))

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
        "key": None if message.key is None else message.key.decode(errors="replace"),
        "payload": message.record.payload,
    }
