"""CON-23, CON-86: small versions of ``python -m tests.connectors.soak``, with each choice in one of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from headrace_connectors.contract import stable_id
from tests.connectors.soak.checks import Message, Topics
from tests.connectors.soak.run import Run
from tests.connectors.soak.variants import CHOICES, Variant

CHANGES, KILLS = 1000, 4


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "variant",
    [
        Variant(),
        Variant(streams="two", snapshot="initial", flight="8"),
        Variant(guarantee="at_least_once", flight="8"),
        Variant(reading="test_decoding"),
        Variant(states="topic", isolation="process", reading="functions"),
    ],
    ids=lambda variant: variant.arguments(),
)
def test_nothing_is_missing_and_nothing_is_twice_while_everything_is_killed(tmp_path: Path, variant: Variant) -> None:
    """Changes of 20 tables through 20 topics to a copy and to files."""
    seed = int(os.environ.get("TEST_SEED", "7"))
    outcome = Run(tmp_path, seed, CHANGES, KILLS, print, variant, transaction_max=100).run()
    assert not outcome.problems, outcome.report()
    assert outcome.changes >= CHANGES
    assert sum(outcome.kills.values()) == KILLS
    assert not variant.is_exact or outcome.repeated == 0


def test_a_seed_draws_the_same_variant_again_and_options_come_first() -> None:
    """The drawn variants have each value of each part, and the command that repeats a run names them all."""
    silent = argparse.Namespace(**dict.fromkeys(CHOICES))
    drawn = [Variant.chosen(seed, silent) for seed in range(100)]
    assert drawn == [Variant.chosen(seed, silent) for seed in range(100)]
    assert {one.guarantee for one in drawn} == {"exactly_once"}
    for name in ("states", "isolation", "streams", "snapshot", "flight", "reading"):
        assert {getattr(one, name) for one in drawn} == set(CHOICES[name])
    chosen = Variant.chosen(7, argparse.Namespace(**(dict.fromkeys(CHOICES) | {"states": "topic"})))
    assert chosen.is_shared
    assert "--states topic" in chosen.arguments()


def ids(*places: tuple[str, int]) -> list[Message]:
    """Messages of changes: positions of transactions and numbers within them."""
    return [Message(stable_id("slot", lsn, number), b'{"lsn":"%s"}' % lsn.encode()) for lsn, number in places]


def problems(messages: list[Message], count: int, *, is_exact: bool = True) -> list[str]:
    """Return the problems of one topic."""
    topics = Topics("slot")
    topics.add("t", messages)
    return topics.problems(count, is_exact=is_exact)


def test_repeated_missing_and_late_messages_are_found() -> None:
    """CON-86: the check of topics has to fail if any promise is broken."""
    in_order = ids(("0/9", 0), ("0/A", 0), ("0/A", 1), ("0/10", 0))
    assert problems(in_order, 4) == []
    assert problems(in_order[:3], 4) == ["3 different messages in topics, of 4 changes"]
    repeated = [*in_order, in_order[2]]
    assert problems(repeated, 4) == ["1 messages are repeated"]
    assert problems(repeated, 4, is_exact=False) == []
    rows = [Message(number, b'{"lsn":null}') for number in (7, 5, 6)]
    assert problems([*rows, *in_order], 7) == []
    assert problems([*in_order, *rows], 7) == ["t: 1 messages come before earlier changes"]
    for late in (ids(("0/A", 0), ("0/9", 0)), ids(("0/A", 1), ("0/A", 0))):
        assert problems(late, 2) == ["t: 1 messages come before earlier changes"]
    assert problems([Message(5, b'{"lsn":"0/9"}')], 1) == ["t: messages have ids that no change has"]
