"""Trial of a sink: messages of its topics are decoded and transformed, and not written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headrace.aio.client import Client
from headrace.sdk.errors import HeadraceError, NotFound
from headrace.sdk.starts import at_offset
from headrace_connectors.contract import ConnectorError, InvalidRecord, Place
from headrace_connectors.json_values import HugeNumber, Number, written
from headrace_connectors.pipeline_file.models import TopicName
from headrace_connectors.pipeline_file.pipeline import SinkSpec
from headrace_connectors.runtime.sink_batch import Decoding
from headrace_connectors.runtime.trials.fields import Seen
from headrace_connectors.runtime.trials.source_trial import Trial, TriedRecord
from headrace_core import Message


def _shown(value: Any) -> Any:
    return written(value) if isinstance(value, Number | HugeNumber) else str(value)


_ENCODER: Final = msgspec.json.Encoder(decimal_format="string", enc_hook=_shown)


async def try_sink(
    spec: SinkSpec, client: Client, is_created: Callable[[TopicName], bool], *, records_max: int, seconds: float
) -> Trial:
    """Read the next messages of a sink, and return what it would write. Nothing is stored, and no group is joined.

    Args:
        spec: The sink.
        client: Connection to the server.
        is_created: Returns whether a source of the same file creates a topic when it needs it. Such topics are in
            `new_topics` of the trial if they are missing; without such a source a missing topic is an error.
        records_max: Maximum number of messages of each topic.
        seconds: Time for all of it.
    """
    key, plugin = spec.key, spec.sink.name
    try:
        async with asyncio.timeout(seconds):
            # Settings that the plugin itself refuses are found here; it is not opened, as that may create tables.
            spec.sink.create()
            transforms = [transform.create() for transform in spec.transforms]
            for transform in transforms:
                await transform.open()
            seen = [Seen.before(transform) for transform in spec.transforms]
            written = Seen.before(spec.sink)
            watched = [one for pair in zip(seen, transforms, strict=True) for one in pair]
            decoding = Decoding(spec.codec.create(), [*watched, written], spec.settings.max_decoded.bytes)
            tried: list[TriedRecord] = []
            missing: list[tuple[str, str]] = []
            for topic in spec.settings.sources:
                try:
                    messages = await _messages(client, topic, spec.settings.group or key, records_max)
                except NotFound:
                    if not is_created(topic):
                        raise
                    missing.append((topic.stream, topic.topic))
                    continue
                for place, message in messages:
                    tried += _outcome(decoding, message, place)
    except TimeoutError:
        return Trial(key, plugin, kind="sink", error=f"its messages could not be read within {seconds:g} s")
    except NotFound as error:
        text = f"{error}: create it, or start the source that creates it"
        return Trial(key, plugin, kind="sink", error=text)
    except (ConnectorError, HeadraceError, OSError) as error:
        return Trial(key, plugin, kind="sink", error=str(error))
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the others are tried, too
        text = f"the plugin failed: {type(error).__name__}: {error}"
        return Trial(key, plugin, kind="sink", error=text)
    warnings = [text for one in (*seen, written) for text in one.warnings()]
    return Trial(key, plugin, tried, kind="sink", new_topics=missing, warnings=warnings)


async def _messages(client: Client, topic: TopicName, group: str, count: int) -> list[tuple[Place, Message]]:
    """Return the messages that the group would read next; if there are none, the last ones."""
    found: list[tuple[Place, Message]] = []
    partitions = (await client.topic(topic.stream, topic.topic)).partitions
    for is_next in (True, False):
        for partition in partitions:
            place = Place(topic.stream, topic.topic, partition.id)
            if is_next:
                start = await _next_offset(client, place, group)
            else:
                start = max(0, partition.current_offset + 1 - count)
            left = count - len(found)
            batch = await client.read(*place[:2], partition=partition.id, start=at_offset(start), count=left)
            found += [(place, message) for message in batch]
            if len(found) >= count:
                return found[:count]
        if found:
            break
    return found


async def _next_offset(client: Client, place: Place, group: str) -> int:
    try:
        stored = await client.offset(place.stream, place.topic, place.partition, group=group)
    except NotFound:
        # There is no such group yet.
        return 0
    return 0 if stored is None else stored.stored_offset + 1


def _outcome(decoding: Decoding, message: Message, place: Place) -> list[TriedRecord]:
    key = None if message.key is None else message.key.decode(errors="replace")
    where: dict[str, Any] = {**place._asdict(), "key": key, "offset": message.offset}
    raw = message.payload.decode(errors="replace")
    try:
        received = decoding.received(message, place)
    except InvalidRecord as error:
        return [TriedRecord("invalid", payload=raw, reason=str(error), **where)]
    if not received:
        return [TriedRecord("dropped", payload=raw, reason="a transform removes it", **where)]
    return [
        TriedRecord("written", payload=_ENCODER.encode(one.record.payload).decode(), reason=None, **where)
        for one in received
    ]
