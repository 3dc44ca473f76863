"""Who reads which partition: the rules of dealing out, free of records and commands.

Partitions move cooperatively. What nobody owns is dealt out at once, to those that can read least at that moment: a
partition that is only promised to a member counts for nothing then, because the promise may take until its deadline.
What somebody owns is first revoked: the owner keeps it until it has processed everything it was given or until the
deadline, and only then does it move. A revocation that is under way stays as it is, whatever else happens, until it
ends or one of its two members leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PendingRevocation:
    """A partition on its way.

    Attributes:
        to_member_id: Who gets it.
        incarnation: With the partition, never reused.
        deadline_micros: When it moves at the latest; microseconds since the Unix epoch.
    """

    to_member_id: int
    incarnation: int
    deadline_micros: int


class Assignment:
    """The partitions 0 to n-1 of a topic and the members of one group.

    Attributes:
        owners: By partition; None only as long as there are no members.
        revocations: By partition, those under way.
    """

    def __init__(
        self, member_ids: Iterable[int], owners: list[int | None], revocations: dict[int, PendingRevocation]
    ) -> None:
        self._member_ids = sorted(member_ids)
        self.owners = owners
        self.revocations = revocations

    def add_member(self, member_id: int) -> None:
        """Let somebody in who owns nothing yet."""
        self._member_ids = sorted([*self._member_ids, member_id])

    def remove_members(self, gone: Collection[int]) -> None:
        """Let some go. What was to leave them anyway goes where it was to go, the rest is nobody's for now."""
        self._member_ids = [member_id for member_id in self._member_ids if member_id not in gone]
        for partition_id, owner in enumerate(self.owners):
            revocation = self.revocations.get(partition_id)
            if revocation is not None and revocation.to_member_id in gone:
                del self.revocations[partition_id]
                revocation = None
            if owner in gone:
                self.owners[partition_id] = revocation.to_member_id if revocation is not None else None
                self.revocations.pop(partition_id, None)

    def resize(self, partitions_count: int) -> None:
        """Append partitions, or remove the highest-numbered ones."""
        for partition_id in range(partitions_count, len(self.owners)):
            self.revocations.pop(partition_id, None)
        del self.owners[partitions_count:]
        self.owners.extend([None] * (partitions_count - len(self.owners)))

    def move(self, partition_id: int) -> None:
        """End a revocation: the partition changes hands."""
        self.owners[partition_id] = self.revocations.pop(partition_id).to_member_id

    def balance(self, *, incarnation: int, deadline_micros: int) -> None:
        """Deal out what nobody owns, and revoke until everybody will have the same number, give or take one.

        A partition that is being revoked is not touched. It may thus take another round, when it has moved, until
        the numbers are even.

        Args:
            incarnation: Of the revocations that begin.
            deadline_micros: Of the revocations that begin.
        """
        if not self._member_ids:
            self.owners = [None] * len(self.owners)
            self.revocations.clear()
            return
        # What everybody has that is not being revoked, what everybody will have when all revocations have ended, and
        # what can be revoked now.
        held = dict.fromkeys(self._member_ids, 0)
        loads = dict.fromkeys(self._member_ids, 0)
        movable: dict[int, list[int]] = {member_id: [] for member_id in self._member_ids}
        for partition_id, owner in enumerate(self.owners):
            revocation = self.revocations.get(partition_id)
            if revocation is not None:
                loads[revocation.to_member_id] += 1
            elif owner is not None:
                held[owner] += 1
                loads[owner] += 1
                movable[owner].append(partition_id)
        self._deal_out(held, loads)
        while True:
            poorest = min(self._member_ids, key=lambda member_id: (loads[member_id], member_id))
            donors = [member_id for member_id in self._member_ids if movable[member_id]]
            richest = max(donors, key=lambda member_id: (loads[member_id], -member_id), default=poorest)
            if loads[richest] - loads[poorest] <= 1:
                return
            self.revocations[movable[richest].pop()] = PendingRevocation(poorest, incarnation, deadline_micros)
            loads[richest] -= 1
            loads[poorest] += 1

    def _deal_out(self, held: Mapping[int, int], loads: dict[int, int]) -> None:
        """Give what nobody owns to those that hold least. It is not revoked in the same moment."""
        queue = [(held[member_id], load, member_id) for member_id, load in loads.items()]
        heapq.heapify(queue)
        for partition_id, owner in enumerate(self.owners):
            if owner is None:
                count, load, poorest = queue[0]
                heapq.heapreplace(queue, (count + 1, load + 1, poorest))
                self.owners[partition_id] = poorest
                loads[poorest] = load + 1
