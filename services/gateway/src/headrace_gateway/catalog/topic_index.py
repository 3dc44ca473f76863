"""Index of topics and the placement of their partitions."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace_gateway.ports import TopicPlaces
from headrace_proto.catalog.v1 import Delta, Node, Stream, Topic, TopicPlacement


class _Topic(NamedTuple):
    name: str
    incarnation: int
    partitions_count: int


class Unavailable(NamedTuple):
    """Partitions of a topic on a node that cannot be used."""

    node: str
    stream: str
    topic: str
    partition_ids: tuple[int, ...]


class _Stream:
    def __init__(self, name: str) -> None:
        self.name = name
        self.topics: dict[int, _Topic] = {}
        self.topic_ids: dict[str, int] = {}
        # Id of the leader of each partition of a topic.
        self.holders: dict[int, array[int]] = {}


class TopicIndex:
    """All streams and topics by id and by name, and the addresses of nodes."""

    def __init__(
        self,
        streams: Iterable[Stream] = (),
        topics: Iterable[Topic] = (),
        nodes: Iterable[Node] = (),
        placements: Iterable[TopicPlacement] = (),
    ) -> None:
        """Build the index of a catalog."""
        self._streams: dict[int, _Stream] = {}
        self._stream_ids: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}
        for stream in streams:
            self._put_stream(stream)
        for topic in topics:
            self._put_topic(topic)
        for node in nodes:
            self._nodes[node.id] = node
        for placement in placements:
            self._put_placement(placement)

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream; None if the stream does not exist."""
        stream = self._streams.get(stream_id)
        return stream.name if stream is not None else None

    def find_topic(self, stream: int | str, topic: int | str) -> TopicPlaces | None:
        """Return a topic; None if it does not exist."""
        stream_id = self._stream_ids.get(stream) if isinstance(stream, str) else stream
        if stream_id is None or (found := self._streams.get(stream_id)) is None:
            return None
        topic_id = found.topic_ids.get(topic) if isinstance(topic, str) else topic
        return self._places(stream_id, topic_id) if topic_id in found.topics else None

    def topics_of(self, stream: int | str) -> Sequence[TopicPlaces] | None:
        """Return the topics of a stream, ascending by id; None if the stream does not exist."""
        stream_id = self._stream_ids.get(stream) if isinstance(stream, str) else stream
        if stream_id is None or stream_id not in self._streams:
            return None
        return [self._places(stream_id, topic_id) for topic_id in sorted(self._streams[stream_id].topics)]

    def nodes(self) -> Sequence[Node]:
        """Return the partition nodes, ascending by id."""
        return [self._nodes[node_id] for node_id in sorted(self._nodes)]

    def led_partitions(self) -> Counter[int]:
        """Return the number of partitions that each node leads, by the id of the node."""
        led: Counter[int] = Counter()
        for stream in self._streams.values():
            for topic_id, topic in stream.topics.items():
                led.update(stream.holders.get(topic_id, ())[: topic.partitions_count])
        return led

    def led_by(self, nodes: Iterable[Node]) -> Sequence[Unavailable]:
        """Return the partitions that these nodes lead, by node, stream and topic."""
        found = []
        for node in nodes:
            for stream in self._streams.values():
                for topic_id, topic in stream.topics.items():
                    holders = stream.holders.get(topic_id, ())[: topic.partitions_count]
                    ids = tuple(number for number, holder in enumerate(holders) if holder == node.id)
                    if ids:
                        found.append(Unavailable(node.name, stream.name, topic.name, ids))
        return found

    def change(self, delta: Delta) -> None:
        """Apply a change of the catalog."""
        match delta.WhichOneof("change"):
            case "stream_put":
                self._put_stream(delta.stream_put)
            case "stream_deleted":
                del self._stream_ids[self._streams.pop(delta.stream_deleted).name]
            case "topic_put":
                self._put_topic(delta.topic_put)
            case "topic_deleted":
                stream = self._streams[delta.topic_deleted.stream_id]
                topic_id = delta.topic_deleted.topic_id
                del stream.topic_ids[stream.topics.pop(topic_id).name]
                stream.holders.pop(topic_id, None)
            case "topic_placement_put":
                self._put_placement(delta.topic_placement_put)
            case "node_put":
                self._nodes[delta.node_put.id] = delta.node_put
            case "node_deleted":
                self._nodes.pop(delta.node_deleted, None)
            case _:
                pass

    def _places(self, stream_id: int, topic_id: int) -> TopicPlaces:
        stream = self._streams[stream_id]
        topic, holders = stream.topics[topic_id], stream.holders.get(topic_id, ())
        nodes = [self._nodes.get(holder) for holder in holders][: topic.partitions_count]
        addresses = [node.grpc_address if node is not None else "" for node in nodes]
        # Unplaced partitions have no address.
        addresses += [""] * (topic.partitions_count - len(addresses))
        return TopicPlaces(stream_id, stream.name, topic_id, topic.name, topic.incarnation, addresses)

    def _put_stream(self, stream: Stream) -> None:
        known = self._streams.get(stream.id)
        if known is None:
            self._streams[stream.id] = _Stream(stream.name)
        else:
            del self._stream_ids[known.name]
            known.name = stream.name
        self._stream_ids[stream.name] = stream.id

    def _put_topic(self, topic: Topic) -> None:
        stream = self._streams[topic.stream_id]
        if (previous := stream.topics.get(topic.id)) is not None:
            del stream.topic_ids[previous.name]
        stream.topics[topic.id] = _Topic(topic.name, topic.incarnation, len(topic.partitions))
        stream.topic_ids[topic.name] = topic.id

    def _put_placement(self, placement: TopicPlacement) -> None:
        holders = array("I", [partition.holder_node_id for partition in placement.partitions])
        self._streams[placement.stream_id].holders[placement.topic_id] = holders
