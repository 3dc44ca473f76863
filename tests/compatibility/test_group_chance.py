"""A group under whatever happens in whatever order: nobody is given what somebody else has in hand (CTL-8)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status
from tests.compatibility.group_member import Group, Member
from tests.compatibility.raw import RawConnection, eventually

STEPS = 600
MEMBERS_MAX = 6
PARTITIONS_MAX = 12


class Run:
    """One group, what its members have in hand, and how far they have stored it."""

    def __init__(self, connection: RawConnection, stream: str, seed: int) -> None:
        self.choice = random.Random(seed)
        self.sent = [0] * self.choice.randint(1, 6)
        self.stored = [0] * len(self.sent)
        """By partition: the offset behind the last one that was stored."""
        self.group = Group(connection, stream, partitions=len(self.sent))
        self.hands: dict[Member, dict[int, int]] = {}
        """By member and partition: the offset behind the last one that it was given and has not stored."""

    def step(self) -> None:
        """Do something."""
        actions: dict[Callable[[], None], int] = {self.send: 6, self.poll: 20, self.process: 12}
        actions |= {self.join: 2, self.go: 1, self.grow: 1}
        (action,) = self.choice.choices(list(actions), weights=list(actions.values()))
        action()

    def join(self) -> None:
        if len(self.hands) < MEMBERS_MAX:
            self.hands[self.group.join()] = {}

    def go(self) -> None:
        """Leave, or just close; what it had in hand is for others."""
        if self.hands:
            member = self.choice.choice(list(self.hands))
            if self.choice.random() < 0.5:
                member.leave()
            member.close()
            del self.hands[member]

    def grow(self) -> None:
        if len(self.sent) < PARTITIONS_MAX:
            self.group.connection.ok(Code.CREATE_PARTITIONS, self.group.topic + frames.u32(1))
            self.sent.append(0)
            self.stored.append(0)

    def send(self) -> None:
        partition, count = self.choice.randrange(len(self.sent)), self.choice.randint(1, 5)
        self.group.send(partition, *[b"m"] * count)
        self.sent[partition] += count

    def poll(self) -> None:
        """Unasked, or by number; with a commit or without."""
        if not self.hands:
            return
        member = self.choice.choice(list(self.hands))
        asked = self.choice.randrange(len(self.sent)) if self.choice.random() < 0.2 else None
        auto_commit = self.choice.random() < 0.2
        answer = member.poll(asked, count=self.choice.randint(1, 4), auto_commit=auto_commit)
        if not answer.messages:
            return
        partition, end = answer.partition, answer.offsets[-1] + 1
        first = self.stored[partition]
        assert answer.offsets == list(range(first, end)), "next goes on behind what is stored"
        for other, hand in self.hands.items():
            assert other is member or hand.get(partition, 0) <= first, f"partition {partition} is in two hands"
        if auto_commit:
            self.stored[partition] = end
        # What it was given before that lies behind this stays in its hand, also when this was committed.
        end = max(end, self.hands[member].get(partition, 0))
        if end > self.stored[partition]:
            self.hands[member][partition] = end
        else:
            self.hands[member].pop(partition, None)

    def process(self) -> None:
        """Store what is in hand, all of it or a part."""
        holding = [(member, partition) for member, hand in self.hands.items() for partition in hand]
        if not holding:
            return
        member, partition = self.choice.choice(holding)
        first, end = self.stored[partition], self.hands[member][partition]
        upto = self.choice.randint(min(first + 1, end), end)
        assert member.store(partition, upto - 1) == Status.OK, "nobody else may have it before that"
        self.stored[partition] = upto
        if upto == end:
            del self.hands[member][partition]

    def drain(self) -> bool:
        """Process everything once; tells whether nothing is left."""
        for member, hand in self.hands.items():
            for partition, end in hand.items():
                assert member.store(partition, end - 1) == Status.OK
                self.stored[partition] = end
            hand.clear()
            for _ in self.sent:
                answer = member.poll(auto_commit=True)
                if answer.messages:
                    assert answer.offsets[0] == self.stored[answer.partition]
                    self.stored[answer.partition] = answer.offsets[-1] + 1
        return self.stored == self.sent


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens(root: RawConnection, stream: str, seed: int) -> None:
    """In the end everything is processed, and everybody has a fair share."""
    run = Run(root, stream, seed)
    try:
        for _ in range(STEPS):
            run.step()
        run.join()
        eventually("everything is processed", run.drain)
        eventually("all is fair", lambda: is_fair(run))
    finally:
        run.group.close()


def is_fair(run: Run) -> bool:
    """Whether the members are those that have joined, each with its share."""
    counts = [len(partitions) for partitions in run.group.owned().values()]
    return len(counts) == len(run.hands) and sum(counts) == len(run.sent) and max(counts) - min(counts) <= 1
