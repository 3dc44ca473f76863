"""A gateway's picture of the catalogue against the state machine that it is a picture of (CTL-2, GW-8)."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace_gateway.ports import TopicPlaces
from headrace_gateway.service.picture import Picture
from headrace_metadata.applied_state import AppliedState
from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import Snapshot

# Commands of every kind, from the definition of `Command` itself.
sys.path.append(str(Path(__file__).parents[2] / "services/metadata/tests"))

from any_command import any_command  # type: ignore[import-not-found]

SEEDS = range(40)
COMMANDS = 250
IDS = range(6)
NAMES = ("one", "two", "three", "four", "five", "six", "seven")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_picture_says_what_the_state_says(seed: int) -> None:
    chance = random.Random(seed)
    machine = StateMachine()
    state, picture = AppliedState(machine), Picture()
    picture.replace(state.subscribe(picture.update, picture.replace))
    for number in range(COMMANDS):
        state.apply(number + 1, (number + 1) * 10_000, any_command(chance.choice))
        if number % 50 == 17:
            picture = started_anew(state)
            state._subscribers = {picture.update: picture.replace}
        if number % 10 == 0:
            assert answers(picture) == answers(state), f"seed {seed}, after {number} commands"
            check_topics(picture, state)
    assert answers(picture) == answers(state), f"seed {seed}"
    check_topics(picture, state)
    assert picture.version == machine.version
    assert {digest for digest in map(bytes, ([n] * 16 for n in b"abc")) if picture.is_login_revoked(digest)} == {
        login.digest for login in machine.catalog().revoked_logins
    }


def started_anew(state: AppliedState) -> Picture:
    """What a gateway holds that begins now, as it comes over the wire."""
    picture = Picture()
    picture.replace(Snapshot.FromString(state.catalog().SerializeToString()))
    return picture


def check_topics(picture: Picture, state: AppliedState) -> None:
    """Topics are found by ids and names, with the addresses of the nodes that serve their partitions."""
    addresses = {record.node.id: record.node.grpc_address for record in state.nodes()}
    for stream_id in IDS:
        known = state.stream_with_topics(stream_id)
        if known is None:
            assert picture.topics_of(stream_id) is None
            assert picture.find_topic(stream_id, 0) is None
            continue
        stream, topics = known
        expected = []
        for topic in topics:
            placement = state.placement(stream_id, topic.id)
            holders = [partition.holder_node_id for partition in placement.partitions] if placement is not None else []
            found = [addresses.get(holder, "") for holder in holders] or [""] * len(topic.partitions)
            expected.append(TopicPlaces(stream_id, stream.name, topic.id, topic.name, topic.incarnation, found))
            for key in (topic.id, topic.name):
                assert picture.find_topic(stream_id, key) == expected[-1]
                assert picture.find_topic(stream.name, key) == expected[-1]
        assert picture.topics_of(stream_id) == picture.topics_of(stream.name) == expected
        assert picture.find_topic(stream_id, "no such name") is None
    assert picture.topics_of("no such name") is None


def answers(asked: Any) -> dict[str, Any]:
    """Every answer to every question, for ids and names that commands use."""
    gateways, clients, moments = (100, 101, 200), (1, 2, 3), (0, 1_100_000, 10**9, 2**63)
    return {
        "users": [asked.user(user_id) for user_id in IDS],
        "named": [asked.user_named(name) for name in NAMES],
        "tokens": [asked.token_of(user_id, name) for user_id in IDS for name in NAMES],
        "expired": [asked.has_expired_access_tokens(moment) for moment in moments],
        "streams": [asked.stream_name(stream_id) for stream_id in IDS],
        "members": [asked.has_members(gateway) for gateway in gateways],
        "connections": [asked.is_member(gateway, client) for gateway in gateways for client in clients],
        "awaiting": [asked.awaits_partitions(gateway, client) for gateway in gateways for client in clients],
    }
