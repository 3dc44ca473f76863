"""CON-16: messages of a batch that are invalid are rejected alone, and the others are written in their order."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import Codec, InvalidRecord, Place, Record, Settings, Sink, Transform, Unavailable
from headrace_connectors.runtime.sink_batch import Decoding, Item, decode, write

PLACE = Place("s", "t", 0)


class Numbers(Sink):
    """Writes numbers; some are poison, and the failure names its index or not."""

    def __init__(self, poison=(), *, names_index=True, failure=None):
        self.poison, self.names_index, self.failure = poison, names_index, failure
        self.written = []
        self.calls = 0

    async def write(self, messages):
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        for index, message in enumerate(messages):
            if message.record.payload in self.poison:
                raise InvalidRecord("poison", index=index if self.names_index else None)
        self.written += [message.record.payload for message in messages]


class Repeat(Transform):
    """Makes as many records of a number as it says."""

    def apply(self, record):
        if record.payload < 0:
            raise InvalidRecord("negative")
        return [Record(record.payload) for _ in range(record.payload)] if record.payload < 3 else record


def items(*payloads):
    return [
        Item(
            SimpleNamespace(payload=payload, headers={}, id=1, offset=offset, timestamp_micros=0, key=None),
            PLACE,
        )
        for offset, payload in enumerate(payloads)
    ]


async def written(sink, found, *transforms):
    rejected = []

    async def reject(item, error):
        rejected.append((item.message.offset, str(error)))

    await decode(Decoding(JsonCodec(Settings()), transforms), found, reject)
    await write(sink, found, reject)
    return rejected


@pytest.mark.parametrize("names_index", [True, False])
@pytest.mark.parametrize("poison", [(), (0,), (9,), (4,), (3, 4), (0, 5, 9), tuple(range(10))])
async def test_poison_is_rejected_and_the_rest_is_written_once(poison, names_index):
    sink = Numbers(poison, names_index=names_index)
    found = items(*(b"%d" % number for number in range(10)))
    rejected = await written(sink, found)
    assert [offset for offset, _ in rejected] == list(poison)
    assert sink.written == [number for number in range(10) if number not in poison]
    assert [item.message.offset for item in found] == sink.written


async def test_what_cannot_be_decoded_or_transformed_is_rejected():
    sink = Numbers()
    rejected = await written(sink, items(b"7", b"{", b"-1", b"0", b"2", b"8"), Repeat())
    assert [offset for offset, _ in rejected] == [1, 2]
    assert "is not JSON" in rejected[0][1]
    assert sink.written == [7, 2, 2, 8]


async def test_an_index_counts_records_and_not_messages():
    sink = Numbers((5,))
    rejected = await written(sink, items(b"2", b"0", b"5", b"1"), Repeat())
    assert [offset for offset, _ in rejected] == [2]
    assert sink.written == [2, 2, 1]


async def test_a_message_that_was_rejected_is_not_rejected_again():
    sink = Numbers((0,))
    found = items(b"0", b"7")
    assert await written(sink, found) == [(0, "poison")]
    sink.failure = Unavailable("away")
    with pytest.raises(Unavailable):
        await written(sink, found)
    sink.failure = None
    assert await written(sink, found) == []
    assert sink.written == [7, 7]


class Wide(Codec):
    """Payloads whose size in memory is the number that they are."""

    is_bounded = True

    def encode(self, payload):
        return b"%d" % payload

    def decode(self, encoded):
        return self.decode_bounded(encoded, 100)[0]

    def decode_bounded(self, encoded, bytes_max):
        if int(encoded) > bytes_max:
            raise InvalidRecord("too large")
        return int(encoded), int(encoded)


async def test_messages_are_decoded_as_many_at_a_time_as_fit_into_memory():
    found = items(b"40", b"41", b"30", b"101", b"99", b"1", b"7")
    decoding = Decoding(Wide(), (), 100)
    rejected, parts = [], []

    async def reject(item, error):
        rejected.append((item.message.offset, str(error)))

    while found:
        part = await decode(decoding, found, reject)
        del found[: len(part)]
        parts.append([item.received[0].record.payload for item in part])
    assert parts == [[40, 41, 30], [99, 1], [7]]
    assert rejected == [(3, "too large")]
