"""Consumer groups, their members and the gateways of these: records, look-ups, and deltas of changes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace_metadata.state_machine.context import Refused
from headrace_proto.catalog.v1 import ConsumerGroup, ConsumerGroupKey, Delta
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import GatewayRecord

GroupPath = tuple[int, int, int]
"""Stream, topic and group id."""


class Groups:
    """All consumer groups. Records are replaced and never changed in place.

    The existence of topics is not tracked here: code that removes a topic must call `remove_topic`.
    """

    def __init__(self, changes: list[Delta]) -> None:
        """Start empty.

        Args:
            changes: List to which every change of the catalog is appended, in order.
        """
        self._changes = changes
        self._groups: dict[tuple[int, int], dict[int, ConsumerGroup]] = {}
        # Memberships by gateway, then client.
        self._memberships: dict[int, dict[int, dict[GroupPath, None]]] = {}
        self._gateways: dict[int, GatewayRecord] = {}
        self._revoking: dict[GroupPath, None] = {}
        # Never decreases: offsets stored for a deleted group are never taken for another group's.
        self.next_key = 0

    def group(self, stream_id: int, topic_id: int, group_id: int) -> ConsumerGroup:
        """Return a group.

        Raises:
            Refused: 5000, it does not exist.
        """
        try:
            return self._groups[stream_id, topic_id][group_id]
        except KeyError:
            raise Refused(Status.CONSUMER_GROUP_ID_NOT_FOUND) from None

    def find_group(self, path: GroupPath) -> ConsumerGroup | None:
        """Return a group, if it exists."""
        stream_id, topic_id, group_id = path
        return self._groups.get((stream_id, topic_id), {}).get(group_id)

    def groups_of(self, stream_id: int, topic_id: int) -> Iterator[ConsumerGroup]:
        """Iterate over the groups of a topic, ascending by id."""
        groups = self._groups.get((stream_id, topic_id), {})
        return (groups[group_id] for group_id in sorted(groups))

    def groups(self) -> Iterator[ConsumerGroup]:
        """Iterate over all groups, ascending by stream, topic and group id."""
        for stream_id, topic_id in sorted(self._groups):
            yield from self.groups_of(stream_id, topic_id)

    def is_name_taken(self, stream_id: int, topic_id: int, name: str) -> bool:
        """Return whether a group of the topic has this name."""
        return any(group.name == name for group in self._groups.get((stream_id, topic_id), {}).values())

    def count_of(self, stream_id: int, topic_id: int) -> int:
        """Return the number of groups of a topic."""
        return len(self._groups.get((stream_id, topic_id), {}))

    def count_of_owner(self, stream_id: int, topic_id: int, user_id: int) -> int:
        """Return the number of groups of a topic that belong to a user."""
        groups = self._groups.get((stream_id, topic_id), {}).values()
        return sum(group.HasField("owner_user_id") and group.owner_user_id == user_id for group in groups)

    def unused_id(self, stream_id: int, topic_id: int) -> int:
        """Return the smallest id that no group of the topic carries."""
        used = self._groups.get((stream_id, topic_id), {})
        return next(candidate for candidate in range(len(used) + 1) if candidate not in used)

    def groups_of_client(self, gateway_id: int, client_id: int) -> list[ConsumerGroup]:
        """Return the groups of which a connection is a member, ascending."""
        return self._groups_at(self._memberships.get(gateway_id, {}).get(client_id, {}))

    def groups_of_gateway(self, gateway_id: int) -> list[ConsumerGroup]:
        """Return the groups that have members at a gateway, ascending."""
        clients = self._memberships.get(gateway_id, {})
        return self._groups_at({path: None for paths in clients.values() for path in paths})

    def revoking_groups(self) -> list[ConsumerGroup]:
        """Return the groups that have revocations under way, ascending."""
        return self._groups_at(self._revoking)

    def gateways(self) -> list[GatewayRecord]:
        """Return the gateways that have members, ascending by id."""
        return [self._gateways[gateway_id] for gateway_id in sorted(self._gateways)]

    def find_gateway(self, gateway_id: int) -> GatewayRecord | None:
        """Return a gateway, if it has members."""
        return self._gateways.get(gateway_id)

    def put_gateway(self, record: GatewayRecord) -> None:
        """Add a gateway, or replace the one with its id. It is removed with its last member."""
        self._gateways[record.gateway.id] = record

    def put_group(self, group: ConsumerGroup) -> None:
        """Add a group to a topic, or replace the one with its id."""
        path = path_of(group)
        previous = self.find_group(path)
        if previous is not None:
            self._forget_members(previous)
        self._groups.setdefault(path[:2], {})[group.id] = group
        for member in group.members:
            self._memberships.setdefault(member.gateway_id, {}).setdefault(member.client_id, {})[path] = None
        if any(member.revocations for member in group.members):
            self._revoking[path] = None
        if previous is not None:
            self._forget_gateways(previous)
        self._changes.append(Delta(consumer_group_put=group))

    def remove_group(self, group: ConsumerGroup) -> None:
        """Remove a group with its members."""
        self._remove(group)
        key = ConsumerGroupKey(stream_id=group.stream_id, topic_id=group.topic_id, group_id=group.id)
        self._changes.append(Delta(consumer_group_deleted=key))

    def remove_topic(self, stream_id: int, topic_id: int) -> None:
        """Remove the groups of a topic. The delta of the topic covers them."""
        for group in list(self.groups_of(stream_id, topic_id)):
            self._remove(group)

    def remove_stream(self, stream_id: int) -> None:
        """Remove the groups of all topics of a stream. The delta of the stream covers them."""
        for group in [group for group in self.groups() if group.stream_id == stream_id]:
            self._remove(group)

    def copy(self, changes: list[Delta]) -> Groups:
        """Return independent groups with the same records."""
        other = Groups(changes)
        other._groups = {topic: dict(groups) for topic, groups in self._groups.items()}
        other._memberships = {
            gateway_id: {client_id: dict(paths) for client_id, paths in clients.items()}
            for gateway_id, clients in self._memberships.items()
        }
        other._gateways = dict(self._gateways)
        other._revoking = dict(self._revoking)
        other.next_key = self.next_key
        return other

    def _groups_at(self, paths: dict[GroupPath, None]) -> list[ConsumerGroup]:
        return [self.group(*path) for path in sorted(paths)]

    def _remove(self, group: ConsumerGroup) -> None:
        path = path_of(group)
        self._forget_members(group)
        self._forget_gateways(group)
        topic = self._groups[path[:2]]
        del topic[group.id]
        if not topic:
            del self._groups[path[:2]]

    def _forget_members(self, group: ConsumerGroup) -> None:
        path = path_of(group)
        self._revoking.pop(path, None)
        for member in group.members:
            clients = self._memberships[member.gateway_id]
            paths = clients[member.client_id]
            del paths[path]
            if not paths:
                del clients[member.client_id]

    def _forget_gateways(self, group: ConsumerGroup) -> None:
        for member in group.members:
            if not self._memberships.get(member.gateway_id, {}):
                self._memberships.pop(member.gateway_id, None)
                self._gateways.pop(member.gateway_id, None)


def path_of(group: ConsumerGroup) -> GroupPath:
    """Return the ids of a group's stream and topic, and its own."""
    return (group.stream_id, group.topic_id, group.id)
