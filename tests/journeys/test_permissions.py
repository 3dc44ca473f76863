"""A user who may read only one topic, through every API of every gateway (CTL-5, CTL-6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace_proto.gateway import v1
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import stream_details
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.journeys.conftest import GIVEN, At
from tests.journeys.deployment.api_clients import (
    APIS,
    Api,
    BinaryApi,
    GrpcApi,
    HttpApi,
    PushApi,
    Refused,
    Sent,
    called,
)
from tests.journeys.deployment.eventually import refused_soon
from tests.journeys.deployment.place import Account, Place

READ = [Sent(b"one", 1), Sent(b"two", 2)]


@pytest.fixture
def closed_stream(root: BinaryApi, stream: str) -> str:
    """Another stream."""
    name = f"{stream}-closed"
    root.connection.create_topic(name)
    root.send(name, *READ)
    return name


@pytest.fixture
def reader(root: BinaryApi, stream: str, closed_stream: str) -> Account:
    """A user who may read the topic `t` of one stream."""
    root.send(stream, *READ)
    account = Account(f"u{stream}", "a password")
    found, (topic,) = stream_details(root.connection.ok(Code.GET_STREAM, frames.ident(stream)))
    rights = frames.permissions(topics={(found.id, topic.id): ["read_topic"]})
    root.connection.ok(Code.CREATE_USER, frames.create_user(account.username, account.password, rights))
    return account


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(Refused, match="UNAUTHORIZED"):
        call()


def create_stream(api: Api, name: str) -> None:
    """Create a stream if the API has the command."""
    if isinstance(api, HttpApi):
        api.ask("POST", "/streams", {"name": name})
    elif isinstance(api, GrpcApi):
        called(api.caller.catalog.CreateStream, v1.CreateStreamRequest(name=name))
    elif isinstance(api, BinaryApi):
        status = api.connection.status(Code.CREATE_STREAM, frames.name(name))
        if status != Status.OK:
            raise Refused(status)
    else:
        assert isinstance(api, PushApi)
        # The push API supports only messages.
        raise Refused(Status.UNAUTHORIZED)


@pytest.mark.parametrize("api", APIS)
def test_one_topic_can_be_read(
    place: Place, root: BinaryApi, at: At, stream: str, closed_stream: str, reader: Account, api: str
) -> None:
    """Reading the topic succeeds at both gateways; reading another one, sending and creating are refused without
    effect.
    """
    for gateway in dict.fromkeys((place.here, place.there)):
        standing = at(APIS[api], gateway, reader)
        assert standing.read(stream, 2) == READ
        standing.store(stream, reader.username, 0)
        assert standing.next_offset(stream, reader.username) == 1
        refused(lambda standing=standing: standing.read(closed_stream, 2))
        refused(lambda standing=standing: standing.store(closed_stream, reader.username, 0))
        refused(lambda standing=standing: standing.send(stream, Sent(b"three")))
        refused(lambda standing=standing: standing.send(closed_stream, Sent(b"three")))
        refused(lambda standing=standing: create_stream(standing, f"{stream}-new"))
    for name in (stream, closed_stream):
        assert root.read(name, 100) == READ
    assert root.connection.ok(Code.GET_STREAM, frames.ident(f"{stream}-new")) == b""


@pytest.mark.parametrize("api", APIS)
def test_a_stored_offset_belongs_to_its_user(
    place: Place, root: BinaryApi, at: At, stream: str, reader: Account, api: str
) -> None:
    """Another reader moves it neither by storing nor by reading, through any API; who manages the topic does."""
    other = Account(f"{reader.username}-other", "a password")
    rights = frames.permissions(["poll_messages"])
    root.connection.ok(Code.CREATE_USER, frames.create_user(other.username, other.password, rights))
    owner = at(BinaryApi, place.there, reader)
    owner.store(stream, "consumer", 0)
    standing = at(APIS[api], place.here, other)
    refused(lambda: standing.store(stream, "consumer", 1))
    for read in commits(standing):
        refused(lambda read=read: read(stream, "consumer"))
    for remove in removals(standing):
        refused(lambda remove=remove: remove(stream, "consumer"))
    assert standing.next_offset(stream, "consumer") == 1
    owner.store(stream, "consumer", 1)
    root.store(stream, "consumer", 0)
    owner.store(stream, "consumer", 1)
    standing.store(stream, "own", 1)
    refused(lambda: owner.store(stream, "own", 1))


def commits(api: Api) -> list[Callable[[str, str], object]]:
    """Return the reads of an API that store the offset of a consumer."""
    if isinstance(api, HttpApi):
        path = "/streams/{}/topics/t/messages?consumer_id={}&partition_id=0&kind=first&count=2&auto_commit=true"
        return [
            lambda stream, consumer: api.ask("GET", path.format(stream, consumer)),
            lambda stream, consumer: api.ask("GET", f"{path.format(stream, consumer)}&wait_ms=1000&min_bytes=1"),
        ]
    if isinstance(api, GrpcApi):
        return [
            lambda stream, consumer: called(
                api.caller.messages.Poll,
                v1.PollRequest(**in_topic(stream), partition_id=0, consumer=named(consumer), count=1, auto_commit=True),
            )
        ]
    if isinstance(api, PushApi):
        return []
    assert isinstance(api, BinaryApi)

    def poll(code: Code, behind: bytes) -> Callable[[str, str], object]:
        def ask(stream: str, consumer: str) -> None:
            of = frames.poll(stream, "t", 0, Strategy.FIRST, auto_commit=True, who=frames.consumer(consumer))
            reply = api.connection.request(code, of + behind)
            if reply.status != Status.OK:
                raise Refused(reply.status)

        return ask

    wait = frames.u32(1) + frames.u64(1_000_000)
    return [poll(Code.POLL_MESSAGES, b""), poll(Code.WAIT_MESSAGES, wait), poll(Code.READ_MESSAGES, wait)]


def removals(api: Api) -> list[Callable[[str, str], object]]:
    """Return the calls of an API that delete the offset of a consumer."""
    if isinstance(api, HttpApi):
        path = "/streams/{}/topics/t/consumer-offsets/{}?partition_id=0"
        return [lambda stream, consumer: api.ask("DELETE", path.format(stream, consumer))]
    if isinstance(api, GrpcApi):
        return [
            lambda stream, consumer: called(
                api.caller.messages.DeleteOffset,
                v1.DeleteOffsetRequest(**in_topic(stream), partition_id=0, consumer=named(consumer)),
            )
        ]
    if isinstance(api, PushApi):
        return []
    assert isinstance(api, BinaryApi)

    def delete(stream: str, consumer: str) -> None:
        of = frames.consumer_offset(stream, "t", 0, who=frames.consumer(consumer))
        status = api.connection.status(Code.DELETE_CONSUMER_OFFSET, of)
        if status != Status.OK:
            raise Refused(status)

    return [delete]


def in_topic(stream: str) -> dict[str, v1.Identifier]:
    """Return the fields that name the topic `t`."""
    return {"stream": v1.Identifier(name=stream), "topic": v1.Identifier(name="t")}


def named(consumer: str) -> v1.Consumer:
    """Return a plain consumer."""
    return v1.Consumer(consumer=v1.Identifier(name=consumer))


@pytest.mark.parametrize("api", APIS)
def test_a_right_that_is_taken_away(
    place: Place, root: BinaryApi, at: At, stream: str, reader: Account, api: str
) -> None:
    """A revoked right is lost for open sessions, and at once at the gateway of the revocation."""
    standing = {gateway: at(APIS[api], gateway, reader) for gateway in (place.here, place.there)}
    for one in standing.values():
        assert one.read(stream, 2) == READ
    root.connection.ok(Code.UPDATE_PERMISSIONS, frames.ident(reader.username) + frames.opt_permissions(None))
    if GIVEN is None:
        refused(lambda: standing[place.here].read(stream, 2))
    # The address may be that of a balancer, which leads to either gateway.
    for one in standing.values():
        refused_soon(lambda one=one: one.read(stream, 2), Status.UNAUTHORIZED)
    with pytest.raises(Refused, match="INVALID_CREDENTIALS"):
        at(APIS[api], place.there, Account(reader.username, "another password"))
