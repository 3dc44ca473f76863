"""Index of partitions, and of those that the catalog places on this node."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from headrace_proto.catalog.v1 import Delta, Node, Snapshot, Topic, TopicPlacement, Update

_TopicId = tuple[int, int]


class Found(NamedTuple):
    """A partition that exists."""

    topic_incarnation: int
    incarnation: int
    purge_epoch: int
    is_here: bool


class _Partitions(NamedTuple):
    topic_incarnation: int
    purge_epoch: int
    incarnations: array[int]


class Placements:
    """Partitions and placements of the catalog, as seen by this node."""

    def __init__(self, node_name: str) -> None:
        self._name = node_name
        self._node: Node | None = None
        self._topics: dict[_TopicId, _Partitions] = {}
        # Id of the leader of each partition, by topic.
        self._holders: dict[_TopicId, array[int]] = {}
        self._count = 0

    @property
    def node(self) -> Node | None:
        """Record of this node in the catalog; None if it is not registered."""
        return self._node

    @property
    def count(self) -> int:
        """Number of partitions placed on this node."""
        return self._count

    def find(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        """Return a partition's record in the catalog, if it exists."""
        partitions = self._topics.get((stream_id, topic_id))
        if partitions is None or partition_id >= len(partitions.incarnations):
            return None
        holders = self._holders.get((stream_id, topic_id), ())
        is_here = self._node is not None and partition_id < len(holders) and holders[partition_id] == self._node.id
        return Found(
            partitions.topic_incarnation, partitions.incarnations[partition_id], partitions.purge_epoch, is_here
        )

    def replace(self, snapshot: Snapshot) -> None:
        """Replace the whole catalog."""
        self._node = next((node for node in snapshot.nodes if node.name == self._name), None)
        self._topics = {(topic.stream_id, topic.id): _partitions_of(topic) for topic in snapshot.topics}
        self._holders = {(one.stream_id, one.topic_id): _holders_of(one) for one in snapshot.topic_placements}
        self._recount()

    def update(self, update: Update) -> None:
        """Apply the changes of one version."""
        for delta in update.deltas:
            self._change(delta)

    def _change(self, delta: Delta) -> None:
        match delta.WhichOneof("change"):
            case "topic_put":
                self._topics[delta.topic_put.stream_id, delta.topic_put.id] = _partitions_of(delta.topic_put)
            case "topic_placement_put":
                placement = delta.topic_placement_put
                self._put((placement.stream_id, placement.topic_id), _holders_of(placement))
            case "topic_deleted":
                self._forget(lambda topic: topic == (delta.topic_deleted.stream_id, delta.topic_deleted.topic_id))
            case "stream_deleted":
                self._forget(lambda topic: topic[0] == delta.stream_deleted)
            case "node_put" if delta.node_put.name == self._name:
                is_another = self._node is None or self._node.id != delta.node_put.id
                self._node = delta.node_put
                if is_another:
                    self._recount()
            case "node_deleted" if self._node is not None and delta.node_deleted == self._node.id:
                self._node = None
                self._count = 0
            case _:
                pass

    def _put(self, topic: _TopicId, holders: array[int]) -> None:
        self._count += self._held(holders) - self._held(self._holders.get(topic, array("I")))
        self._holders[topic] = holders

    def _forget(self, is_gone: Callable[[_TopicId], bool]) -> None:
        for topic in [topic for topic in self._topics if is_gone(topic)]:
            del self._topics[topic]
        for topic in [topic for topic in self._holders if is_gone(topic)]:
            self._count -= self._held(self._holders.pop(topic))

    def _recount(self) -> None:
        self._count = sum(self._held(holders) for holders in self._holders.values())

    def _held(self, holders: array[int]) -> int:
        return holders.count(self._node.id) if self._node is not None else 0


def _partitions_of(topic: Topic) -> _Partitions:
    incarnations = array("Q", [partition.incarnation for partition in topic.partitions])
    return _Partitions(topic.incarnation, topic.purge_epoch, incarnations)


def _holders_of(placement: TopicPlacement) -> array[int]:
    return array("I", [partition.holder_node_id for partition in placement.partitions])
