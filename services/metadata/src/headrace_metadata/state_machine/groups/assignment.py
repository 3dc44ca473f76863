"""Assignment of partitions to group members: the rules, independent of records and commands.

Partitions move cooperatively. Unowned partitions are assigned at once, to the members that can read the fewest at that
moment: a partition that is only promised to a member does not count, because the move may take until its deadline. An
owned partition is first revoked: the owner keeps it until it has processed all messages it was sent or until the
deadline, and only then the partition moves. A revocation in progress does not change until it ends or one of its two
members leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PendingRevocation:
    """A partition that is being revoked.

    Attributes:
        to_member_id: Next owner.
        incarnation: Unique together with the partition, never reused.
        deadline_micros: Latest time of the move; microseconds since the Unix epoch.
    """

    to_member_id: int
    incarnation: int
    deadline_micros: int


class Assignment:
    """The partitions 0 to n-1 of a topic and the members of one group.

    Attributes:
        owners: Owner by partition; None only while there are no members.
        revocations: Revocations in progress, by partition.
    """

    def __init__(
        self, member_ids: Iterable[int], owners: list[int | None], revocations: dict[int, PendingRevocation]
    ) -> None:
        self._member_ids = sorted(member_ids)
        self.owners = owners
        self.revocations = revocations

    def add_member(self, member_id: int) -> None:
        """Add a member without partitions."""
        self._member_ids = sorted([*self._member_ids, member_id])

    def remove_members(self, gone: Collection[int]) -> None:
        """Remove members. Their partitions in revocation move to the next owner, the others become unowned."""
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
        """End a revocation: the partition moves to its next owner."""
        self.owners[partition_id] = self.revocations.pop(partition_id).to_member_id

    def balance(self, *, incarnation: int, deadline_micros: int) -> None:
        """Assign unowned partitions, and revoke others until all members will have the same number, plus or minus one.

        A partition that is being revoked is not touched. Balance may therefore need another round after it has moved.

        Args:
            incarnation: Incarnation of new revocations.
            deadline_micros: Deadline of new revocations.
        """
        if not self._member_ids:
            self.owners = [None] * len(self.owners)
            self.revocations.clear()
            return
        # Number of partitions per member that are not being revoked, number after all revocations have ended, and the
        # partitions that can be revoked now.
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
        """Assign unowned partitions to the members with the fewest. They are not revoked in the same round."""
        queue = [(held[member_id], load, member_id) for member_id, load in loads.items()]
        heapq.heapify(queue)
        for partition_id, owner in enumerate(self.owners):
            if owner is None:
                count, load, poorest = queue[0]
                heapq.heapreplace(queue, (count + 1, load + 1, poorest))
                self.owners[partition_id] = poorest
                loads[poorest] = load + 1
