"""Placements of a node, built from snapshots and updates, compared with a simple model."""

from hypothesis import given
from hypothesis import strategies as st

from headrace_partition_node.placements import Placements
from headrace_proto.catalog.v1 import (
    Delta,
    Node,
    Partition,
    PartitionPlacement,
    Snapshot,
    Topic,
    TopicKey,
    TopicPlacement,
    Update,
)

NAME = "here"

topics = st.tuples(st.integers(0, 2), st.integers(0, 2))
holders = st.lists(st.integers(0, 3), max_size=5)
changes = st.one_of(
    st.tuples(st.just("placed"), topics, holders),
    st.tuples(st.just("topic gone"), topics),
    st.tuples(st.just("stream gone"), st.integers(0, 2)),
    st.tuples(st.just("node"), st.integers(1, 3), st.sampled_from([NAME, "there", "elsewhere"])),
    st.tuples(st.just("node gone"), st.integers(1, 3)),
)


def placement(topic, nodes):
    partitions = [PartitionPlacement(holder_node_id=node) for node in nodes]
    return TopicPlacement(stream_id=topic[0], topic_id=topic[1], partitions=partitions)


def topic_of(topic, nodes):
    partitions = [Partition(id=number, incarnation=100 + number) for number in range(len(nodes))]
    return Topic(stream_id=topic[0], id=topic[1], incarnation=7, purge_epoch=9, partitions=partitions)


class Model:
    """Model that is rebuilt from the whole catalog at each step."""

    def __init__(self):
        self.nodes = {}
        self.topics = {}

    def apply(self, change):
        """Apply a change; return its deltas, none if the metadata service would never emit it."""
        match change:
            case ("placed", topic, nodes):
                self.topics[topic] = nodes
                return [Delta(topic_put=topic_of(topic, nodes)), Delta(topic_placement_put=placement(topic, nodes))]
            case ("topic gone", topic):
                self.topics.pop(topic, None)
                return [Delta(topic_deleted=TopicKey(stream_id=topic[0], topic_id=topic[1]))]
            case ("stream gone", stream):
                self.topics = {topic: nodes for topic, nodes in self.topics.items() if topic[0] != stream}
                return [Delta(stream_deleted=stream)]
            case ("node", number, name):
                # Node ids are never reused.
                if name in self.nodes.values() or number in self.nodes:
                    return []
                self.nodes[number] = name
                return [Delta(node_put=Node(id=number, name=name))]
            case ("node gone", number):
                self.nodes.pop(number, None)
                return [Delta(node_deleted=number)]

    def snapshot(self):
        return Snapshot(
            topics=[topic_of(topic, nodes) for topic, nodes in sorted(self.topics.items())],
            nodes=[Node(id=number, name=name) for number, name in sorted(self.nodes.items())],
            topic_placements=[placement(topic, nodes) for topic, nodes in sorted(self.topics.items())],
        )

    def here(self):
        ids = [number for number, name in self.nodes.items() if name == NAME]
        return {
            (*topic, partition)
            for topic, nodes in self.topics.items()
            for partition, node in enumerate(nodes)
            if node in ids
        }


def check(placements, model):
    here = model.here()
    assert placements.count == len(here)
    for stream in range(3):
        for topic in range(3):
            for partition in range(6):
                found = placements.find(stream, topic, partition)
                assert (found is not None) == (partition < len(model.topics.get((stream, topic), ())))
                if found is not None:
                    assert found == (7, 100 + partition, 9, (stream, topic, partition) in here)


@given(st.lists(changes, max_size=30), st.sets(st.integers(0, 30)))
def test_snapshots_and_updates_say_the_same(steps, snapshots):
    model, placements = Model(), Placements(NAME)
    for number, step in enumerate(steps):
        deltas = model.apply(step)
        if number in snapshots:
            placements.replace(model.snapshot())
        else:
            placements.update(Update(deltas=deltas))
        check(placements, model)
