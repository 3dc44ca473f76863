"""Places of connections: those without a login make room for others, and one user keeps half."""

import asyncio

import pytest

from headrace_chassis.http_connections import Connections


class Transport(asyncio.Transport):
    def __init__(self, address):
        super().__init__({"peername": (address, 1)})
        self.is_aborted = False

    def abort(self):
        self.is_aborted = True


@pytest.fixture
async def connections():
    return Connections(asyncio.Protocol, count_max=6, first_request_seconds=60, limit="places")


def opened(connections, address, count=1):
    made = [Transport(address) for _ in range(count)]
    return [transport for transport in made if connections.opened(transport)]


async def test_who_opens_many_displaces_its_own(connections):
    """Regression: one host that opened connections without end took all places."""
    (other,) = opened(connections, "198.51.100.1")
    many = opened(connections, "203.0.113.1", 20)
    assert len(many) == 20
    assert [transport.is_aborted for transport in many] == [True] * 15 + [False] * 5
    assert not other.is_aborted
    (late,) = opened(connections, "198.51.100.2")
    assert many[15].is_aborted
    assert not late.is_aborted
    # The library reports the end of the displaced ones later.
    for transport in many:
        connections.closed(transport)
    assert len(opened(connections, "198.51.100.3", 4)) == 4
    assert not other.is_aborted


async def test_all_addresses_of_one_host_are_one(connections):
    """Regression: each of the 2^64 addresses of an IPv6 host counted alone, and displaced the oldest of the others."""
    (other,) = opened(connections, "2001:db8:1::1")
    host = [opened(connections, f"2001:db8:2::{number:x}")[0] for number in range(1, 20)]
    assert not other.is_aborted
    assert host[0].is_aborted


async def test_users_keep_their_places(connections):
    users = opened(connections, "203.0.113.1", 6)
    for user, transport in enumerate(users):
        connections.has_logged_in(transport, user)
    assert opened(connections, "198.51.100.1") == []
    connections.closed(users[0])
    assert len(opened(connections, "198.51.100.1")) == 1
    assert not any(transport.is_aborted for transport in users)


async def test_one_user_keeps_half(connections):
    mine = opened(connections, "203.0.113.1", 6)
    for transport in mine:
        connections.has_logged_in(transport, "hostile")
    for number in range(3):
        (other,) = opened(connections, "198.51.100.1")
        connections.has_logged_in(other, number)
    assert [transport.is_aborted for transport in mine] == [False] * 3 + [True] * 3
    assert opened(connections, "198.51.100.1") == []
    # A connection of a balancer, which carries requests of several users, belongs to the last one.
    connections.has_logged_in(mine[0], "another")
    assert len(connections._known) == 5
