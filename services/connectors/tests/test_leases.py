"""The ledger of a group: entries are compare-and-sets, leases end before others begin, and loads are even."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.leases.balance import changes
from headrace_connectors.leases.ledger import (
    NO_FENCE,
    Claim,
    LeaseExpired,
    Leaving,
    Ledger,
    Release,
    Renewal,
    Saved,
    decode,
    encode,
)
from headrace_connectors.leases.member import GroupMember, LeaseLost
from headrace_connectors.leases.topic import LedgerTopic

LEASE_SECONDS = 10.0
NAMES = ("a", "b", "c")


def ledger(*entries):
    found = Ledger()
    effects = [found.apply(offset, decode(encode(entry))) for offset, entry in enumerate(entries)]
    return found, effects


def alive(member, connectors=NAMES):
    return Renewal(member, member, LEASE_SECONDS, tuple(connectors))


def test_one_claim_of_several_wins():
    """The offset of the entry is the fence."""
    found, effects = ledger(alive("x"), alive("y"), Claim("x", "a", NO_FENCE), Claim("y", "a", NO_FENCE))
    assert effects == [True, True, True, False]
    assert found.has("x", "a", 2)


def test_a_state_counts_under_the_current_lease_alone():
    """A member whose lease was taken appends a state, which no reader applies."""
    found, effects = ledger(
        alive("x"),
        alive("y"),
        Claim("x", "a", NO_FENCE),
        Saved("x", "a", 2, "random", b"1"),
        LeaseExpired("x", 0),
        Claim("y", "a", 2),
        Saved("x", "a", 2, "random", b"2"),
        Saved("y", "a", 2, "random", b"3"),
    )
    assert effects == [True, True, True, True, True, True, False, False]
    assert found.states["a"].state == b"1"


def test_a_state_that_comes_late_replaces_no_newer_one():
    """The writer got no answer for it, and has saved another one under the same lease."""
    begin = (alive("x"), Claim("x", "a", NO_FENCE))
    old, new = (Saved("x", "a", 1, "random", b"%d" % number, number) for number in (1, 2))
    found, effects = ledger(*begin, old, new, old)
    assert effects[2:] == [True, True, False]
    assert found.states["a"].state == b"2"
    found, effects = ledger(*begin, new, old)
    assert effects[2:] == [True, False]
    # Numbers are of a lease, and snapshots keep them.
    again = Ledger()
    again.restore(decode(encode(found.snapshot())))
    for one in (found, again):
        assert not one.apply(4, old)
        assert one.apply(5, Release("x", "a", 1))
        assert one.apply(6, Claim("x", "a", 1))
        assert one.apply(7, Saved("x", "a", 6, "random", b"3", 1))
        assert one.states["a"].state == b"3"


def test_a_member_that_has_renewed_is_not_silent():
    """The entry names a renewal that is not the last one."""
    found, effects = ledger(alive("x"), Claim("x", "a", NO_FENCE), alive("x"), LeaseExpired("x", 0))
    assert effects[-1] is False
    assert found.has("x", "a", 1)


def test_a_member_that_was_removed_claims_nothing_until_it_renews():
    """Otherwise a lease could have an owner that is not known."""
    _, effects = ledger(alive("x"), Leaving("x"), Claim("x", "a", NO_FENCE), alive("x"), Claim("x", "a", NO_FENCE))
    assert effects == [True, True, False, True, True]


def test_a_lease_is_given_up_by_its_owner():
    """The next claim names its fence."""
    found, effects = ledger(
        alive("x"),
        alive("y"),
        Claim("x", "a", NO_FENCE),
        Release("y", "a", 2),
        Release("x", "a", 2),
        Claim("y", "a", NO_FENCE),
        Claim("y", "a", 2),
    )
    assert effects == [True, True, True, False, True, False, True]
    assert found.has("y", "a", 6)


def test_a_ledger_continues_after_its_snapshot():
    """Entries before it are not needed."""
    found, _ = ledger(alive("x"), Claim("x", "a", NO_FENCE), Saved("x", "a", 1, "random", b"1"))
    restored = Ledger()
    restored.restore(decode(encode(found.snapshot())))
    for one in (found, restored):
        assert one.apply(4, Saved("x", "a", 1, "random", b"2"))
    assert (restored.members, restored.leases, restored.states) == (found.members, found.leases, found.states)
    assert restored.next_offset == found.next_offset == 5


@pytest.mark.parametrize("members", [1, 2, 3, 5])
@pytest.mark.parametrize("connectors", [0, 1, 4, 7])
def test_connectors_are_shared_evenly_and_then_stay(members, connectors):
    """Members join one after the other; at the end the numbers differ by one at most."""
    names = [f"c{number}" for number in range(connectors)]
    found, offset = Ledger(), 0
    joined = []
    for member in range(members):
        joined.append(f"m{member}")
        found.apply(offset, alive(joined[-1], names))
        offset += 1
        for _ in range(4):
            for one in joined:
                wanted = changes(found, one, joined)
                entries = [Claim(one, name, found.fence(name)) for name in wanted.claims]
                entries += [Release(one, name, found.fence(name)) for name in wanted.releases]
                for entry in entries:
                    assert found.apply(offset, entry)
                    offset += 1
        held = [len(found.held_by(one)) for one in joined]
        assert sum(held) == connectors
        assert max(held) - min(held) <= 1
        assert all(changes(found, one, joined) == ([], []) for one in joined)


def test_a_connector_of_one_member_alone_runs_there():
    """The number of those that it has does not matter."""
    found, _ = ledger(alive("x", ("a", "b", "c")), alive("y", ("c",)))
    assert changes(found, "x", ["x", "y"]).claims == ["a", "b"]
    assert changes(found, "y", ["x", "y"]).claims == ["c"]


class Topic:
    """One process's view of a topic in memory; entries can be lost, or their answers."""

    def __init__(self, entries, draw):
        self.entries, self.draw = entries, draw
        self.ledger = Ledger()
        self.is_long = False
        self.is_cut_off = False

    def read(self):
        """Read everything; return the offsets that had no effect."""
        start = self.ledger.next_offset
        return [
            offset for offset in range(start, len(self.entries)) if not self.ledger.apply(offset, self.entries[offset])
        ]

    async def append(self, entry):
        if self.is_cut_off or self.draw.random() < 0.1:
            raise Unavailable("lost")
        self.entries.append(entry)
        offset = len(self.entries) - 1
        if self.draw.random() < 0.1:
            raise Unavailable("its answer is lost")
        return offset not in self.read()


@given(st.integers(0, 2**32))
def test_no_connector_is_in_two_processes_at_once(seed):
    """Members stop, are cut off, lose entries and answers, and come back, in any order."""
    draw = random.Random(seed)
    now, entries = [0.0], []
    topics = [Topic(entries, draw) for _ in range(3)]
    members = [
        GroupMember(topic, lease_seconds=LEASE_SECONDS, connectors=NAMES, clock=lambda: now[0]) for topic in topics
    ]

    async def act(topic, member):
        if not topic.is_cut_off:
            topic.read()
        await member.renew()
        await member.remove_silent()
        wanted = member.wanted()
        for name in wanted.claims:
            await member.claim(name)
        for name in wanted.releases:
            await member.release(name)
        for name in NAMES:
            if member.fence(name) is not None:
                await member.save(name, "random", b"%d" % len(entries))

    async def steps():
        frozen = set()
        for _ in range(120):
            now[0] += draw.random() * 2
            index = draw.randrange(3)
            if draw.random() < 0.1:
                frozen ^= {index}
            if draw.random() < 0.1:
                topics[index].is_cut_off = not topics[index].is_cut_off
            if index not in frozen:
                with contextlib.suppress(Unavailable, LeaseLost):
                    await act(topics[index], members[index])
            for name in NAMES:
                assert sum(member.may_finish(name) for member in members) <= 1

    asyncio.run(steps())


def test_a_group_recovers_when_two_of_three_members_end():
    """The one that is left has everything when their leases are over, and not before."""
    now, entries = [0.0], []
    topics = [Topic(entries, random.Random(1)) for _ in range(2)]
    for topic in topics:
        topic.draw.random = lambda: 1.0
    gone, left = (
        GroupMember(topic, lease_seconds=LEASE_SECONDS, connectors=NAMES, clock=lambda: now[0]) for topic in topics
    )

    async def work():
        await gone.renew()
        for name in NAMES:
            await gone.claim(name)
        await left.renew()
        await left.remove_silent()
        assert left.wanted() == ([], [])
        now[0] += LEASE_SECONDS - 0.1
        await left.renew()
        await left.remove_silent()
        assert left.wanted().claims == []
        now[0] += 0.2
        await left.remove_silent()
        assert left.wanted().claims == list(NAMES)
        with pytest.raises(LeaseLost):
            await gone.save("a", "random", b"1")

    asyncio.run(work())


@pytest.mark.parametrize(
    "payload",
    [
        b"no entry",
        encode(alive("mm")).replace(b"mm", b"\xff\xfe"),
        b"\x82\xa4type\xa7renewal\xa1x" + b"\x91" * 100_000,
    ],
    ids=["no MessagePack", "no UTF-8", "nested deeply"],
)
def test_messages_that_are_no_entries_are_left_out(payload):
    topic = LedgerTopic(None, "s", "g", timeout=1.0)
    topic._read(0, 0, payload)
    topic._read(1, 0, encode(alive("x")))
    assert set(topic.ledger.members) == {"x"}


def test_entries_that_were_removed_before_they_were_read_are_an_error():
    """A ledger with a hole would differ from those of other processes."""
    topic = LedgerTopic(None, "s", "g", timeout=1.0)
    topic._read(0, 0, encode(alive("x")))
    topic._read(1, 0, b"no entry")
    with pytest.raises(ConnectorError, match="from offset 2 to 6 were removed"):
        topic._read(7, 0, encode(alive("y")))
    assert set(topic.ledger.members) == {"x"}
    assert topic.ledger.next_offset == 2
