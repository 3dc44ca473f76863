"""Stored data survives a restart of all services (LOG-10, CTL-3, GW-8)."""

from __future__ import annotations

from collections.abc import Callable

from headrace_core import decode_raw_access_token, encode_create_personal_access_token
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import group_details
from tests.compatibility.protocol.codes import Code
from tests.journeys.deployment.api_clients import APIS, BinaryApi, GrpcApi, Sent
from tests.journeys.deployment.eventually import until
from tests.journeys.deployment.place import Account, Place

PARTITIONS_COUNT = 4
GROUP = frames.consumer("g", group=True)


def test_what_was_stored_survives(place: Place, restart: Callable[[], object], stream: str, name: str) -> None:
    """Messages, offsets stored through every API and by a group, users with their rights, and access tokens survive."""
    account = Account(f"u{name}", "a password")
    sent = {
        partition: [Sent(b"%d %d" % (partition, number), 1 + number) for number in range(50)]
        for partition in range(PARTITIONS_COUNT)
    }
    with BinaryApi(place.here, place.root) as root:
        for partition, messages in sent.items():
            root.send(stream, *messages, partition=partition)
        rights = frames.permissions(["read_streams"])
        root.connection.ok(Code.CREATE_USER, frames.create_user(account.username, account.password, rights))
        path = frames.ident(stream) + frames.ident("t")
        root.connection.ok(Code.CREATE_CONSUMER_GROUP, path + frames.name("g"))
        root.connection.ok(Code.JOIN_CONSUMER_GROUP, path + frames.ident("g"))
        for partition in range(PARTITIONS_COUNT):
            store = frames.consumer_offset(stream, "t", partition, 30 + partition, who=GROUP)
            root.connection.ok(Code.STORE_CONSUMER_OFFSET, store)
        token = decode_raw_access_token(root.connection.ok(*encode_create_personal_access_token(name=name)))
    for number, (api, kind) in enumerate(APIS.items()):
        with kind(place.there, place.root) as standing:
            for partition in range(PARTITIONS_COUNT):
                standing.store(stream, f"by-{api}", 10 * partition + number, partition=partition)

    restart()

    for gateway in place.gateways:
        with BinaryApi(gateway, place.root) as api:
            for partition, messages in sent.items():
                assert api.read(stream, 1000, partition=partition) == messages
                assert api.connection.stored_offset(stream, "t", partition, who=GROUP) == 30 + partition
        for number, (name_of_api, kind) in enumerate(APIS.items()):
            with kind(gateway, place.root) as standing:
                for partition in range(PARTITIONS_COUNT):
                    goes_on_at = standing.next_offset(stream, f"by-{name_of_api}", partition=partition)
                    assert goes_on_at == 10 * partition + number + 1
        with BinaryApi(gateway, account) as api:
            assert api.read(stream, 1, partition=1) == sent[1][:1]
        with GrpcApi(gateway, place.root, token) as api:
            assert api.read(stream, 1, partition=2) == sent[2][:1]

    with BinaryApi(place.there, place.root) as root:
        for partition, messages in sent.items():
            more = Sent(b"more", 100)
            root.send(stream, more, partition=partition)
            assert root.read(stream, 1000, partition=partition) == [*messages, more]
        # Former members have been removed and do not block new ones.
        path = frames.ident(stream) + frames.ident("t") + frames.ident("g")
        root.connection.ok(Code.JOIN_CONSUMER_GROUP, path)
        until("the partitions are given out", lambda: owned_by_one(root, path) == PARTITIONS_COUNT)


def owned_by_one(root: BinaryApi, path: bytes) -> int:
    """Number of partitions of the only member of a group."""
    _, members = group_details(root.connection.ok(Code.GET_CONSUMER_GROUP, path))
    return len(next(iter(members.values()))) if len(members) == 1 else 0
