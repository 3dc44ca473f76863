"""Partition nodes, their leases, and the placement of partitions: records, look-ups, and deltas of changes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace_metadata.state_machine.context import Refused
from headrace_proto.catalog.v1 import NODE_STATUS_LIVE, Delta, Node, TopicPlacement
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import NodeLease


class Nodes:
    """All nodes and placements. Records are replaced and never changed in place.

    The existence of topics is not tracked here: code that removes a topic must call `remove_topic`.
    """

    def __init__(self, changes: list[Delta]) -> None:
        """Start empty.

        Args:
            changes: List to which every change of the catalog is appended, in order.
        """
        self._changes = changes
        self._nodes: dict[int, Node] = {}
        self._node_ids: dict[str, int] = {}
        self._leases: dict[int, NodeLease] = {}
        self._placements: dict[tuple[int, int], TopicPlacement] = {}
        # Never decreases: data on the disks of a removed node is never taken for another node's. 0: no node was ever
        # registered.
        self.last_id = 0

    @property
    def is_used(self) -> bool:
        """True if partitions are placed at all, that is, if a node has ever been registered."""
        return self.last_id > 0

    def node(self, node_id: int) -> Node:
        """Return a node.

        Raises:
            Refused: 20100, it does not exist.
        """
        try:
            return self._nodes[node_id]
        except KeyError:
            raise Refused(Status.NODE_NOT_FOUND) from None

    def find_node(self, node_id: int) -> Node | None:
        """Return a node, if it exists."""
        return self._nodes.get(node_id)

    def node_named(self, name: str) -> Node | None:
        """Return the node with this name; None if there is none."""
        node_id = self._node_ids.get(name)
        return self._nodes[node_id] if node_id is not None else None

    def nodes(self) -> Iterator[Node]:
        """Iterate over the nodes, ascending by id."""
        return (self._nodes[node_id] for node_id in sorted(self._nodes))

    def count(self) -> int:
        """Return the number of nodes."""
        return len(self._nodes)

    def eligible(self) -> list[tuple[int, int]]:
        """Return the nodes eligible for replicas, ascending by id, with their numbers of shards."""
        return [
            (node.id, node.shards) for node in self.nodes() if node.status == NODE_STATUS_LIVE and not node.is_draining
        ]

    def lease(self, node_id: int) -> NodeLease:
        """Return the lease of an existing node."""
        return self._leases[node_id]

    def leases(self) -> Iterator[NodeLease]:
        """Iterate over the leases, ascending by node."""
        return (self._leases[node_id] for node_id in sorted(self._leases))

    def placement(self, stream_id: int, topic_id: int) -> TopicPlacement | None:
        """Return the placement of a topic's partitions; None if they are not placed."""
        return self._placements.get((stream_id, topic_id))

    def placements(self) -> Iterator[TopicPlacement]:
        """Iterate over the placements, ascending by stream and topic id."""
        return (self._placements[topic] for topic in sorted(self._placements))

    def put_node(self, node: Node) -> None:
        """Add a node, or replace the one with its id."""
        previous = self._nodes.get(node.id)
        if previous is not None:
            del self._node_ids[previous.name]
        self._nodes[node.id] = node
        self._node_ids[node.name] = node.id
        self._changes.append(Delta(node_put=node))

    def put_lease(self, lease: NodeLease) -> None:
        """Set the lease of an existing node. Makes no delta: only its expiry changes the node record."""
        self._leases[lease.node_id] = lease

    def remove_node(self, node: Node) -> None:
        """Remove a node with its lease; no placement may name it."""
        del self._nodes[node.id]
        del self._node_ids[node.name]
        del self._leases[node.id]
        self._changes.append(Delta(node_deleted=node.id))

    def put_placement(self, placement: TopicPlacement) -> None:
        """Place the partitions of an existing topic, for the first time or anew."""
        self._placements[placement.stream_id, placement.topic_id] = placement
        self._changes.append(Delta(topic_placement_put=placement))

    def remove_topic(self, stream_id: int, topic_id: int) -> None:
        """Remove the placement of a topic. The delta of the topic covers it."""
        self._placements.pop((stream_id, topic_id), None)

    def remove_stream(self, stream_id: int) -> None:
        """Remove the placements of a stream's topics. The delta of the stream covers them."""
        for topic in [topic for topic in self._placements if topic[0] == stream_id]:
            del self._placements[topic]

    def copy(self, changes: list[Delta]) -> Nodes:
        """Return independent nodes with the same records."""
        other = Nodes(changes)
        other._nodes = dict(self._nodes)
        other._node_ids = dict(self._node_ids)
        other._leases = dict(self._leases)
        other._placements = dict(self._placements)
        other.last_id = self.last_id
        return other
