"""Messages keep their bytes through every API and gateway (GW-1 to GW-6, GW-8)."""

from __future__ import annotations

import pytest

from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import APIS, Sent
from tests.journeys.deployment.place import Place

MESSAGES = [
    Sent(b"x", 1),
    Sent(bytes(range(256)), 2**128 - 1, (("trace", b"\0\xff"), ("ünïcödé", b"value"))),
    Sent(b"\0" * 3000, 2**64),
    Sent(bytes(range(251)) * 1200, 4),
]
"""Payloads of 1 byte to 300 kB: in a shared frame, and in one with its own buffers."""


@pytest.mark.parametrize("api", APIS)
def test_what_is_sent_through_one_api_is_read_through_all(place: Place, at: At, stream: str, api: str) -> None:
    """Sent at one gateway, to two partitions; read at both."""
    sender = at(APIS[api], place.here)
    sender.send(stream, *MESSAGES, partition=0)
    for message in MESSAGES:
        sender.send(stream, message, partition=3)
    for gateway in dict.fromkeys((place.there, place.here)):
        for name, reader in APIS.items():
            standing = at(reader, gateway)
            for partition in (0, 3):
                found = standing.read(stream, len(MESSAGES), partition=partition)
                assert found == MESSAGES, f"{name} at {gateway}, partition {partition}"


@pytest.mark.parametrize("api", APIS)
def test_batches_stay_in_their_order(place: Place, at: At, stream: str, api: str) -> None:
    """Two senders at two gateways: everything is there once, each one's in its order."""
    senders = [at(APIS[api], gateway) for gateway in (place.here, place.there)]
    for number in range(25):
        for who, sender in enumerate(senders):
            sender.send(stream, *(Sent(b"%d %d %d" % (who, number, part), 1) for part in range(3)), partition=1)
    found = [message.payload.split() for message in at(APIS[api], place.there).read(stream, 150, partition=1)]
    for who in range(2):
        mine = [fields[1:] for fields in found if fields[0] == b"%d" % who]
        assert mine == [[b"%d" % number, b"%d" % part] for number in range(25) for part in range(3)]


@pytest.mark.parametrize("api", APIS)
def test_stored_offsets_are_those_of_every_api(place: Place, at: At, stream: str, api: str, root: object) -> None:
    """An offset stored through one API at one gateway is used by all APIs at both."""
    at(APIS["binary"], place.here).send(stream, *(Sent(b"%d" % number) for number in range(20)), partition=2)
    at(APIS[api], place.here).store(stream, "reader", 11, partition=2)
    for gateway in dict.fromkeys((place.here, place.there)):
        for name, reader in APIS.items():
            assert at(reader, gateway).next_offset(stream, "reader", partition=2) == 12, f"{name} at {gateway}"
