"""Random operations on a group: no member receives a message that another member is processing (CTL-8)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.compatibility.groups.member import Group, Member
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection, eventually

STEPS = 600
MEMBERS_MAX = 6
PARTITIONS_MAX = 12


class Run:
    """State of one group: the messages each member is processing and the stored offsets."""

    def __init__(self, connection: RawConnection, stream: str, seed: int) -> None:
        self.choice = random.Random(seed)
        self.sent = [0] * self.choice.randint(1, 6)
        self.stored = [0] * len(self.sent)
        """Next offset after the last stored one, by partition."""
        self.group = Group(connection, stream, partitions=len(self.sent))
        self.hands: dict[Member, dict[int, int]] = {}
        """Next offset after the last message delivered and not stored, by member and partition."""

    def step(self) -> None:
        """Do a random operation."""
        actions: dict[Callable[[], None], int] = {self.send: 6, self.poll: 20, self.process: 12}
        actions |= {self.join: 2, self.go: 1, self.grow: 1}
        (action,) = self.choice.choices(list(actions), weights=list(actions.values()))
        action()

    def join(self) -> None:
        if len(self.hands) < MEMBERS_MAX:
            self.hands[self.group.join()] = {}

    def go(self) -> None:
        """End a membership by leaving or by closing the connection; its unprocessed messages go to other members."""
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
        """Poll with or without a partition, with or without auto-commit."""
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
        # Messages delivered earlier with higher offsets stay in processing, even if this poll has committed.
        end = max(end, self.hands[member].get(partition, 0))
        if end > self.stored[partition]:
            self.hands[member][partition] = end
        else:
            self.hands[member].pop(partition, None)

    def process(self) -> None:
        """Store all or a part of the offsets in processing."""
        holding = [(member, partition) for member, hand in self.hands.items() for partition in hand]
        if not holding:
            return
        member, partition = self.choice.choice(holding)
        first, end = self.stored[partition], self.hands[member][partition]
        upto = self.choice.randint(min(first + 1, end), end)
        assert member.store(partition, upto - 1) == Status.OK, "no other member may have it before that"
        self.stored[partition] = upto
        if upto == end:
            del self.hands[member][partition]

    def drain(self) -> bool:
        """Process everything once; return whether nothing is left."""
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
    """After random operations everything is processed and every member has a fair share."""
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
    """Return whether the members are those that have joined, each with its share."""
    counts = [len(partitions) for partitions in run.group.owned().values()]
    return len(counts) == len(run.hands) and sum(counts) == len(run.sent) and max(counts) - min(counts) <= 1
