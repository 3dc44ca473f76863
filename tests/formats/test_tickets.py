"""Tickets against the specification of their form: services of one cluster may be of different releases."""

import base64
import hmac
import struct

import pytest

from headrace_core import Ticket, TicketError, TicketKey

SECRET = "a secret of sixteen bytes"
NOW = 1_800_000_000
NO_ISSUER = struct.pack("<IQQ", 2**32 - 1, 0, 0)
"""Issuer of a ticket that a service has created."""


def signed(said: bytes, secret: str = SECRET, cluster: str = "cluster") -> str:
    """Sign a ticket according to the specification alone."""
    key = hmac.digest(secret.encode(), b"headrace ticket v1\0" + cluster.encode(), "sha256")
    whole = said + hmac.digest(key, b"hrt2." + said, "sha256")
    return "hrt2." + base64.urlsafe_b64encode(whole).decode().rstrip("=")


def said(ticket: str) -> bytes:
    """The signed part without the random id."""
    encoded = ticket.removeprefix("hrt2.")
    whole = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    return whole[:30] + bytes(16) + whole[46:-32]


def fields(ticket: Ticket) -> tuple[object, ...]:
    return (ticket.stream_id, ticket.topic_id, ticket.partition_id, ticket.incarnation, ticket.read, ticket.write)


def test_tickets_have_the_form_that_is_described() -> None:
    key = TicketKey(SECRET, "cluster")
    partition = bytes([3, 1]) + struct.pack("<IIIQQ", 1, 2, 3, 4, NOW) + bytes(16) + NO_ISSUER + b"executor 7"
    mine = key.sign("executor 7", not_after=NOW, stream_id=1, topic_id=2, partition_id=3, incarnation=4, read=True)
    assert said(mine) == partition
    assert fields(key.verify(signed(partition), now=NOW)) == (1, 2, 3, 4, True, False)

    topic = bytes([2, 2]) + struct.pack("<IIIQQ", 1, 2, 0, 9, NOW) + bytes(16) + struct.pack("<IQQ", 7, 3, 12) + b"w"
    assert (
        said(key.sign("w", not_after=NOW, stream_id=1, topic_id=2, incarnation=9, write=True, issuer=(7, 3, 12)))
        == topic
    )
    assert fields(key.verify(signed(topic), now=NOW)) == (1, 2, None, 9, False, True)

    assert key.verify(signed(topic), now=NOW).issuer == (7, 3, 12)

    cluster = bytes([1, 3]) + struct.pack("<IIIQQ", 0, 0, 0, 0, NOW) + bytes(16) + NO_ISSUER + b"gateway"
    assert said(key.sign("gateway", not_after=NOW)) == cluster
    ticket = key.verify(signed(cluster), now=NOW)
    assert fields(ticket) == (None, None, None, 0, True, True)
    assert (ticket.holder, ticket.not_after, ticket.id, ticket.issuer) == ("gateway", NOW, 0, None)


def test_no_two_tickets_are_the_same() -> None:
    key = TicketKey(SECRET, "cluster")
    assert key.sign("gateway", not_after=NOW) != key.sign("gateway", not_after=NOW)


def test_what_is_no_ticket_of_the_cluster_opens_nothing() -> None:
    """Without the secret no ticket can be created or extended, and every ticket expires."""
    key = TicketKey(SECRET, "cluster")
    ticket = key.sign("gateway", not_after=NOW)
    with pytest.raises(TicketError, match="the ticket has expired"):
        key.verify(ticket, now=NOW + 1)
    for other in (TicketKey(SECRET, "another"), TicketKey("another secret of its own", "cluster")):
        with pytest.raises(TicketError, match="belongs to another cluster"):
            other.verify(ticket, now=NOW)
    for text in ("", "hrt2.", "Bearer x", ticket[:-1], ticket.removeprefix("hrt2."), f"{ticket}="):
        with pytest.raises(TicketError):
            key.verify(text, now=NOW)


def test_a_scope_is_whole() -> None:
    key = TicketKey(SECRET, "cluster")
    for numbers in ({"stream_id": 1}, {"topic_id": 1}, {"stream_id": 1, "partition_id": 1}):
        with pytest.raises(ValueError, match="a ticket is for"):
            key.sign("x", not_after=NOW, **numbers)
    for partition_id in (None, 0):
        with pytest.raises(ValueError, match="do not fit"):
            key.sign("x", not_after=NOW, stream_id=4096, topic_id=0, partition_id=partition_id)
    with pytest.raises(ValueError, match="1 to 255 bytes"):
        key.sign("", not_after=NOW)
