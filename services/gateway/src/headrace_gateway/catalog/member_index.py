"""Index of consumer group members by gateway and connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headrace_gateway.ports import GroupPath
from headrace_proto.catalog.v1 import ConsumerGroup

_Connection: TypeAlias = tuple[int, int]
# Ids of gateway and client.


class _Membership(NamedTuple):
    member_id: int
    """Id within the group."""
    awaits_partitions: bool


class MemberIndex:
    """Members of all groups by connection."""

    def __init__(self) -> None:
        self._groups: dict[GroupPath, dict[_Connection, _Membership]] = {}
        self._connections: dict[int, dict[int, set[GroupPath]]] = {}

    def put(self, group: ConsumerGroup) -> None:
        """Insert or replace a group."""
        path = (group.stream_id, group.topic_id, group.id)
        self.forget(path)
        awaiting = {revocation.to_member_id for member in group.members for revocation in member.revocations}
        members = {
            (member.gateway_id, member.client_id): _Membership(member.id, member.id in awaiting)
            for member in group.members
        }
        if not members:
            return
        self._groups[path] = members
        for gateway_id, client_id in members:
            self._connections.setdefault(gateway_id, {}).setdefault(client_id, set()).add(path)

    def forget(self, path: GroupPath) -> None:
        """Remove a group."""
        for gateway_id, client_id in self._groups.pop(path, {}):
            clients = self._connections[gateway_id]
            clients[client_id].discard(path)
            if not clients[client_id]:
                del clients[client_id]
            if not clients:
                del self._connections[gateway_id]

    def forget_groups(self, stream_id: int, topic_id: int | None = None) -> None:
        """Remove all groups of a stream, or of one of its topics."""
        for path in [path for path in self._groups if path[0] == stream_id and topic_id in {None, path[1]}]:
            self.forget(path)

    def has_members(self, gateway_id: int) -> bool:
        """Return whether a connection of this gateway is a member of any group."""
        return gateway_id in self._connections

    def is_member(self, gateway_id: int, client_id: int) -> bool:
        """Return whether this connection is a member of any group."""
        return client_id in self._connections.get(gateway_id, {})

    def member_ids(self, gateway_id: int, client_id: int) -> Mapping[GroupPath, int]:
        """Return the ids of this connection as a member, by group."""
        paths = self._connections.get(gateway_id, {}).get(client_id, set())
        return {path: self._groups[path][gateway_id, client_id].member_id for path in paths}

    def awaits_partitions(self, gateway_id: int, client_id: int) -> bool:
        """Return whether partitions are about to move to this connection."""
        paths = self._connections.get(gateway_id, {}).get(client_id, set())
        return any(self._groups[path][gateway_id, client_id].awaits_partitions for path in paths)
