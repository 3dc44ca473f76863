"""States of the partition nodes, as clients of this gateway should see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.catalog.topic_index import Unavailable
from headrace_gateway.observability.cluster_state import NodeCondition
from headrace_proto.catalog.v1 import NODE_STATUS_SILENT, Node

Contacts = Callable[[], Sequence[tuple[int, int, bool]]]
"""Runs of nodes that the shards have tried: id of the node, incarnation, and whether it is reached."""

_ABSENT: frozenset[NodeCondition] = frozenset({"silent", "unreachable"})


class NodeConditions:
    """The one source of these states: every interface that shows a node, or what is on it, asks here.

    The shards decide by the same two facts whether a partition is listed as unreachable: the heartbeats that the
    cluster receives, and their own links.
    """

    def __init__(self, catalog: Catalog, contacts: Contacts) -> None:
        self._catalog = catalog
        self._contacts = contacts

    def all(self) -> Sequence[tuple[Node, NodeCondition]]:
        """Return all partition nodes with their states, ascending by id."""
        lost = {(node_id, incarnation) for node_id, incarnation, is_reached in self._contacts() if not is_reached}
        return [(node, _condition(node, lost)) for node in self._catalog.view.nodes()]

    def absent(self) -> Sequence[Node]:
        """Return the nodes whose partitions cannot be used through this gateway."""
        return [node for node, condition in self.all() if condition in _ABSENT]

    def unavailable(self) -> Sequence[Unavailable]:
        """Return the partitions on these nodes, by node, stream and topic."""
        return self._catalog.view.led_by(self.absent())


def _condition(node: Node, lost: set[tuple[int, int]]) -> NodeCondition:
    if node.status == NODE_STATUS_SILENT:
        return "silent"
    if (node.id, node.incarnation) in lost:
        return "unreachable"
    return "draining" if node.is_draining else "live"
