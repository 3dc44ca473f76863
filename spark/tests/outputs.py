"""Contents of a sink's topic, and its pending stages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from place import Place


def payloads(place: Place, topic: str = "out") -> Counter[bytes]:
    """Return all readable messages."""
    client = place.connected()
    found: Counter[bytes] = Counter()
    for partition in range(len(client.topic(place.stream, topic).partitions)):
        offset = 0
        while messages := client.poll(
            place.stream, topic, partition, strategy="offset", value=offset, count=10_000
        ).messages:
            found.update(message.payload for message in messages)
            offset = messages[-1].offset + 1
    client.close()
    return found


def stages_on_disk(place: Place) -> list[Path]:
    """Return the stage files of the stream, committed or not."""
    client = place.connected()
    (number,) = [stream.id for stream in client.streams() if stream.name == place.stream]
    client.close()
    return list(place.server.data.glob(f"streams/{number}/topics/*/partitions/*/*.stage"))
