"""Node preference of partitions: stable forever, proportional to shards, unaffected by other nodes (SHARD-3)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property_runs import bounded

from headrace_metadata.state_machine.placement.placement_order import packed_namespace, ranked
from headrace_proto.limits import PARTITIONS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX

namespaces = st.builds(
    packed_namespace,
    st.integers(0, STREAMS_MAX - 1),
    st.integers(0, TOPICS_PER_STREAM_MAX - 1),
    st.integers(0, PARTITIONS_PER_TOPIC_MAX - 1),
)
clusters = st.dictionaries(st.integers(1, 2**32 - 1) | st.integers(1, 9), st.integers(1, 64), max_size=9)


def test_the_order_never_changes():
    """Replicas of different releases have to agree: a change would make clusters in use diverge."""
    nodes = [(1, 1), (2, 1), (3, 8), (4, 65535), (4_000_000_000, 1)]
    largest = packed_namespace(STREAMS_MAX - 1, TOPICS_PER_STREAM_MAX - 1, PARTITIONS_PER_TOPIC_MAX - 1)
    assert largest == 2**44 - 1
    orders = [ranked(namespace, nodes) for namespace in (0, 1, 2, packed_namespace(1, 2, 3), largest)]
    assert orders == [
        [4, 3, 2, 4000000000, 1],
        [4, 3, 1, 2, 4000000000],
        [4, 3, 1, 2, 4000000000],
        [4, 3, 1, 4000000000, 2],
        [4, 1, 4000000000, 3, 2],
    ]


def test_shard_3_what_does_not_fit_is_refused_and_never_wrapped():
    for path in (
        (STREAMS_MAX, 0, 0),
        (0, TOPICS_PER_STREAM_MAX, 0),
        (0, 0, PARTITIONS_PER_TOPIC_MAX),
        (-1, 0, 0),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            packed_namespace(*path)


@given(namespace=namespaces, cluster=clusters, joins=st.integers(1, 2**32 - 1), shards=st.integers(1, 64))
@bounded(200)
def test_who_joins_or_leaves_changes_nothing_between_the_others(namespace, cluster, joins, shards):
    """Only partitions that the node wins, or had won, move."""
    cluster.pop(joins, None)
    without = ranked(namespace, cluster.items())
    assert sorted(without) == sorted(cluster)
    with_it = ranked(namespace, [*reversed(cluster.items()), (joins, shards)])
    assert [node for node in with_it if node != joins] == without


@given(
    stream=st.integers(0, STREAMS_MAX - 1),
    topic=st.integers(0, TOPICS_PER_STREAM_MAX - 1),
    cluster=clusters.filter(lambda cluster: len(cluster) > 1),
)
@bounded(25)
def test_nodes_win_partitions_in_proportion_to_their_shards(stream, topic, cluster):
    """Each is within six standard deviations of its share."""
    count = 400
    wins = dict.fromkeys(cluster, 0)
    for partition in range(count):
        wins[ranked(packed_namespace(stream, topic, partition), cluster.items())[0]] += 1
    for node, shards in cluster.items():
        share = shards / sum(cluster.values())
        assert abs(wins[node] - count * share) <= 6 * math.sqrt(count * share * (1 - share)) + 1


def test_replicas_of_a_large_topic_are_balanced():
    """Five nodes, three replicas: each node has three fifths of them within a tenth, and one fifth of the leaders."""
    count = 5000
    nodes = [(node, 4) for node in range(1, 6)]
    orders = [ranked(packed_namespace(0, 0, partition), nodes) for partition in range(count)]
    for node in range(1, 6):
        replicas = sum(node in order[:3] for order in orders)
        primaries = sum(node == order[0] for order in orders)
        assert abs(replicas - count * 3 / 5) <= count * 3 / 5 / 10
        assert abs(primaries - count / 5) <= count / 5 / 10
