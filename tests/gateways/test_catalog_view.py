"""The catalog view of a gateway, compared with the state machine that it replicates (CTL-2, GW-8)."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from headrace_gateway.catalog.topic_index import Unavailable
from headrace_gateway.catalog.view import CatalogView
from headrace_gateway.ports import TopicPlaces
from headrace_gateway.service.metrics import NodesCollector
from headrace_gateway.service.nodes import NodeConditions
from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import (
    NODE_STATUS_LIVE,
    NODE_STATUS_SILENT,
    Delta,
    Node,
    Partition,
    PartitionPlacement,
    Snapshot,
    Stream,
    Topic,
    TopicKey,
    TopicPlacement,
    Update,
)

# Commands of every kind, from the definition of `Command` itself.
sys.path.append(str(Path(__file__).parents[2] / "services/metadata/tests"))

from any_command import any_command  # type: ignore[import-not-found]

SEEDS = range(40)
COMMANDS = 250
IDS = range(6)
NAMES = ("one", "two", "three", "four", "five", "six", "seven")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_view_says_what_the_state_says(seed: int) -> None:
    chance = random.Random(seed)
    machine = StateMachine()
    state, view = AppliedState(machine), CatalogView()
    view.replace(state.subscribe(view.update, view.replace))
    for number in range(COMMANDS):
        state.apply(number + 1, (number + 1) * 10_000, any_command(chance.choice))
        if number % 50 == 17:
            view = started_anew(state)
            state._subscribers = {view.update: view.replace}
        if number % 10 == 0:
            assert answers(view) == answers(state), f"seed {seed}, after {number} commands"
            check_topics(view, state)
    assert answers(view) == answers(state), f"seed {seed}"
    check_topics(view, state)
    assert view.version == machine.version
    assert {digest for digest in map(bytes, ([n] * 16 for n in b"abc")) if view.is_login_revoked(digest)} == {
        login.digest for login in machine.catalog().revoked_logins
    }


def started_anew(state: AppliedState) -> CatalogView:
    """The catalog view of a gateway that starts now, from the wire format."""
    view = CatalogView()
    view.replace(Snapshot.FromString(state.catalog().SerializeToString()))
    return view


def check_topics(view: CatalogView, state: AppliedState) -> None:
    """Topics are found by ids and names, with the addresses of the nodes that serve their partitions."""
    addresses = {record.node.id: record.node.grpc_address for record in state.nodes()}
    for stream_id in IDS:
        known = state.stream_with_topics(stream_id)
        if known is None:
            assert view.topics_of(stream_id) is None
            assert view.find_topic(stream_id, 0) is None
            continue
        stream, topics = known
        expected = []
        for topic in topics:
            placement = state.placement(stream_id, topic.id)
            holders = [partition.holder_node_id for partition in placement.partitions] if placement is not None else []
            found = [addresses.get(holder, "") for holder in holders] or [""] * len(topic.partitions)
            expected.append(TopicPlaces(stream_id, stream.name, topic.id, topic.name, topic.incarnation, found))
            for key in (topic.id, topic.name):
                assert view.find_topic(stream_id, key) == expected[-1]
                assert view.find_topic(stream.name, key) == expected[-1]
        assert view.topics_of(stream_id) == view.topics_of(stream.name) == expected
        assert view.find_topic(stream_id, "no such name") is None
    assert view.topics_of("no such name") is None


def test_partitions_on_silent_nodes_are_named() -> None:
    """Nodes that are silent or not reached are reported by node, stream and topic, in metrics too, until they return or
    the topic is deleted (USE-6).
    """
    view = CatalogView()
    contacts: list[tuple[int, int, bool]] = []
    nodes = NodeConditions(cast("Any", Following(view)), lambda: contacts)
    silent, heard = NODE_STATUS_SILENT, NODE_STATUS_LIVE
    placed = [PartitionPlacement(holder_node_id=number) for number in (1, 2, 1)]
    view.replace(
        Snapshot(
            version=1,
            streams=[Stream(id=4, name="shop")],
            topics=[Topic(stream_id=4, id=7, name="orders", partitions=[Partition(id=number) for number in range(3)])],
            nodes=[Node(id=1, name="one", status=silent), Node(id=2, name="two", status=heard)],
            topic_placements=[TopicPlacement(stream_id=4, topic_id=7, partitions=placed)],
        )
    )
    assert nodes.unavailable() == [Unavailable("one", "shop", "orders", (0, 2))]
    registry = CollectorRegistry()
    registry.register(NodesCollector(nodes))
    text = generate_latest(registry).decode()
    prefix = "headrace_gateway_"
    assert f'{prefix}unavailable_partitions{{node="one",stream="shop",topic="orders"}} 2.0' in text
    assert f'{prefix}node_heard{{node="one"}} 0.0' in text
    assert f'{prefix}node_heard{{node="two"}} 1.0' in text
    view.update(Update(version=2, deltas=[Delta(node_put=Node(id=1, name="one", status=heard))]))
    assert nodes.unavailable() == []
    # An experience with an earlier run of the node does not count.
    contacts[:] = [(1, 0, True), (2, 7, False)]
    assert nodes.unavailable() == []
    contacts[:] = [(1, 0, True), (2, 0, False)]
    assert [condition for _, condition in nodes.all()] == ["live", "unreachable"]
    assert nodes.unavailable() == [Unavailable("two", "shop", "orders", (1,))]
    contacts.clear()
    view.update(Update(version=3, deltas=[Delta(node_put=Node(id=2, name="two", status=silent))]))
    assert nodes.unavailable() == [Unavailable("two", "shop", "orders", (1,))]
    view.update(Update(version=4, deltas=[Delta(topic_deleted=TopicKey(stream_id=4, topic_id=7))]))
    assert nodes.unavailable() == []


@dataclass
class Following:
    """The part of the catalog that metrics read."""

    view: CatalogView


def answers(asked: Any) -> dict[str, Any]:
    """Responses to every query, for ids and names that commands use."""
    gateways, clients, moments = (100, 101, 200), (1, 2, 3), (0, 1_100_000, 10**9, 2**63)
    return {
        "users": [asked.user(user_id) for user_id in IDS],
        "named": [asked.user_named(name) for name in NAMES],
        "tokens": [asked.token_of(user_id, name) for user_id in IDS for name in NAMES],
        "expired": [asked.has_expired_access_tokens(moment) for moment in moments],
        "streams": [asked.stream_name(stream_id) for stream_id in IDS],
        "members": [asked.has_members(gateway) for gateway in gateways],
        "connections": [asked.is_member(gateway, client) for gateway in gateways for client in clients],
        "member ids": [asked.member_ids(gateway, client) for gateway in gateways for client in clients],
        "awaiting": [asked.awaits_partitions(gateway, client) for gateway in gateways for client in clients],
    }
