"""Plugins that break one rule each: the rule is the docstring."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headrace_connectors.contract import InvalidRecord, Place, Received, Record
from tests.connectors.conformance import planted_ahead, planted_sources
from tests.connectors.conformance.good import (
    GoodCodec,
    GoodSink,
    GoodTransform,
    PlantedCodecCase,
    PlantedSinkCase,
    PlantedSourceCase,
    PlantedTransformCase,
)

# ---- sinks


class Lingering(GoodSink):
    """flush_makes_everything_durable"""

    async def flush(self, positions: Mapping[Place, int]) -> None:
        kept = self.held[-1:]
        self.held = self.held[:-1]
        await super().flush(positions)
        self.held = kept


class NeedsMessages(GoodSink):
    """flush_without_messages_works"""

    async def flush(self, positions: Mapping[Place, int]) -> None:
        self.held[0]
        await super().flush(positions)


class WrongIndex(GoodSink):
    """invalid_record_is_named_and_the_rest_is_not_written"""

    async def write(self, messages: Sequence[Received]) -> None:
        try:
            await super().write(messages)
        except InvalidRecord as error:
            raise InvalidRecord(str(error), index=0) from error


class WritesHalf(GoodSink):
    """invalid_record_is_named_and_the_rest_is_not_written"""

    async def write(self, messages: Sequence[Received]) -> None:
        for index, message in enumerate(messages):
            if message.record.payload["id"] < 0:
                raise InvalidRecord("a number is negative", index=index)
            self.held.append(message)


class WrongFailure(GoodSink):
    """invalid_record_is_named_and_the_rest_is_not_written"""

    async def write(self, messages: Sequence[Received]) -> None:
        try:
            await super().write(messages)
        except InvalidRecord as error:
            raise ValueError("a number is negative") from error


class TakesEverything(GoodSink):
    """invalid_record_is_named_and_the_rest_is_not_written"""

    async def write(self, messages: Sequence[Received]) -> None:
        self.held += [one for one in messages if one.record.payload["id"] >= 0]


class OffsetsBeforeFlush(GoodSink):
    """unflushed_messages_are_written_again"""

    async def write(self, messages: Sequence[Received]) -> None:
        await super().write(messages)
        for one in messages:
            self.shelf["offsets"][one.place] = one.offset + 1


class MovesBack(GoodSink):
    """stored_offsets_are_those_of_flushes"""

    async def flush(self, positions: Mapping[Place, int]) -> None:
        await super().flush(positions)
        self.shelf["offsets"].update(positions)


class KnowsEveryPlace(GoodSink):
    """stored_offsets_are_those_of_flushes"""

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        return {place: self.shelf["offsets"].get(place, 1) for place in places}


class WritesTwice(GoodSink):
    """stored_messages_are_not_written_twice"""

    async def flush(self, positions: Mapping[Place, int]) -> None:
        self.shelf["rows"] += [one.record.payload["id"] for one in self.held]
        self.held = []
        await super().flush(positions)


class ForgetsNothing(GoodSink):
    """forgotten_messages_are_written_once"""

    async def forget(self) -> None:
        """Keep what is held."""


class SinkClosesOnce(GoodSink):
    """close_is_repeatable"""

    async def open(self) -> None:
        self.handle = object()

    async def close(self) -> None:
        del self.handle


class FlushesTwice(GoodSink):
    """cancelled_calls_can_be_repeated"""

    async def flush(self, positions: Mapping[Place, int]) -> None:
        self.shelf["rows"] += [one.record.payload["id"] for one in self.held]
        self.held = []
        # The offsets follow, and a cancellation comes in between.
        await super().flush(positions)


class HoldsAtCancellation(GoodSink):
    """cancelled_calls_can_be_repeated"""

    async def write(self, messages: Sequence[Received]) -> None:
        self.held += messages
        await asyncio.sleep(0)


# ---- transforms


class Crashing(GoodTransform):
    """every_record_has_a_result"""

    def apply(self, record: Record) -> Any:
        return Record(record.payload["type"])


class ReturnsPayload(GoodTransform):
    """every_record_has_a_result"""

    def apply(self, record: Record) -> Any:
        return record.payload


class ChangesInPlace(GoodTransform):
    """payload_is_not_changed_in_place"""

    def apply(self, record: Record) -> Any:
        if isinstance(record.payload, dict):
            record.payload["fields"] = len(record.payload)
        return record


class ChangesTheRecord(GoodTransform):
    """payload_is_not_changed_in_place"""

    def apply(self, record: Record) -> Any:
        record.payload = [record.payload]
        return record


class Counting(GoodTransform):
    """result_depends_on_the_record_alone"""

    def apply(self, record: Record) -> Any:
        self.count += 1
        return Record(self.count)


# ---- codecs


class Truncating(GoodCodec):
    """payloads_survive"""

    def encode(self, payload: Any) -> bytes:
        return super().encode(payload)[:3]


class EncodesText(GoodCodec):
    """payloads_survive"""

    def encode(self, payload: Any) -> Any:
        return super().encode(payload).decode()


class LetsThrough(GoodCodec):
    """bad_bytes_are_invalid_records"""

    def decode(self, encoded: bytes) -> Any:
        return int(encoded) if encoded.isdigit() else 0


class FailsOtherwise(GoodCodec):
    """bad_bytes_are_invalid_records"""

    def decode(self, encoded: bytes) -> Any:
        return int(encoded)


class EncodesAnything(GoodCodec):
    """other_payloads_are_invalid_records"""

    def encode(self, payload: Any) -> bytes:
        return str(payload).encode()


PLANTED: Mapping[type[Any], Any] = {
    **dict.fromkeys(planted_sources.PLANTED, PlantedSourceCase),
    **dict.fromkeys(planted_ahead.PLANTED, PlantedSourceCase),
    **dict.fromkeys(GoodSink.__subclasses__(), PlantedSinkCase),
    **dict.fromkeys(GoodTransform.__subclasses__(), PlantedTransformCase),
    **dict.fromkeys(GoodCodec.__subclasses__(), PlantedCodecCase),
}
