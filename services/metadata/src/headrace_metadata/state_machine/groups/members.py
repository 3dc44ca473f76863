"""Changes of group membership: conversion from a group record to a record with a new assignment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace_metadata.state_machine.context import CommandContext
from headrace_metadata.state_machine.groups.assignment import Assignment, PendingRevocation
from headrace_metadata.state_machine.state import State
from headrace_proto.catalog.v1 import ConsumerGroup, GroupMember, Revocation

_END_OF_TIME: Final = 2**64 - 1


class GroupChange:
    """A group during a change: modify it, then take the new record.

    Attributes:
        assignment: Current owners.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self._members = {member.id: member for member in group.members}
        owners: list[int | None] = [None] * group.partitions_count
        revocations = {}
        for member in group.members:
            for partition_id in member.partitions:
                owners[partition_id] = member.id
            for revocation in member.revocations:
                revocations[revocation.partition_id] = PendingRevocation(
                    revocation.to_member_id, revocation.incarnation, revocation.deadline_micros
                )
        self.assignment = Assignment(self._members, owners, revocations)

    def add(self, member: GroupMember) -> None:
        """Add a member."""
        self._members[member.id] = member
        self.assignment.add_member(member.id)

    def remove(self, members: Iterable[GroupMember]) -> None:
        """Remove members."""
        gone = {member.id: None for member in members}
        for member_id in gone:
            del self._members[member_id]
        self.assignment.remove_members(gone)

    def resize(self, partitions_count: int) -> None:
        """Adapt to a changed number of partitions."""
        self.assignment.resize(partitions_count)

    def ended(self, context: CommandContext) -> ConsumerGroup:
        """Return the group after this context, with the next generation and a balancing assignment."""
        group = self._group
        self.assignment.balance(
            incarnation=context.op,
            # Clamp the deadline: a sum that does not fit its field would stop every replica.
            deadline_micros=min(context.timestamp_micros + group.revocation_timeout_micros, _END_OF_TIME),
        )
        partitions: dict[int, list[int]] = {member_id: [] for member_id in self._members}
        revocations: dict[int, list[Revocation]] = {member_id: [] for member_id in self._members}
        for partition_id, owner in enumerate(self.assignment.owners):
            if owner is None:
                continue
            partitions[owner].append(partition_id)
            pending = self.assignment.revocations.get(partition_id)
            if pending is not None:
                revocations[owner].append(
                    Revocation(
                        partition_id=partition_id,
                        to_member_id=pending.to_member_id,
                        incarnation=pending.incarnation,
                        deadline_micros=pending.deadline_micros,
                    )
                )
        return ConsumerGroup(
            stream_id=group.stream_id,
            topic_id=group.topic_id,
            id=group.id,
            name=group.name,
            created_at_micros=group.created_at_micros,
            key=group.key,
            generation=group.generation + 1,
            partitions_count=len(self.assignment.owners),
            revocation_timeout_micros=group.revocation_timeout_micros,
            owner_user_id=group.owner_user_id if group.HasField("owner_user_id") else None,
            members=(
                GroupMember(
                    id=member.id,
                    gateway_id=member.gateway_id,
                    client_id=member.client_id,
                    user_id=member.user_id,
                    incarnation=member.incarnation,
                    partitions=partitions[member.id],
                    revocations=revocations[member.id],
                )
                for member in (self._members[member_id] for member_id in sorted(self._members))
            ),
        )


def remove(state: State, context: CommandContext, group: ConsumerGroup, members: Iterable[GroupMember]) -> None:
    """Take members out of a group."""
    change = GroupChange(group)
    change.remove(members)
    state.groups.put_group(change.ended(context))
