"""SPK-1: offsets in checkpoints: a canonical encoding, and strict parsing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_headrace.errors import OffsetError
from pyspark_headrace.read.offsets import Offsets

NAMES = st.text(min_size=1, max_size=8)
KEYS = st.tuples(NAMES, st.integers(0, 999))
NUMBER = st.integers(0, 2**64 - 1)
STATES = st.tuples(st.integers(0, 2**63 - 1), NUMBER, NUMBER, NUMBER)


@st.composite
def many_offsets(draw: st.DrawFn) -> Offsets:
    found = draw(st.dictionaries(KEYS, STATES, max_size=12))
    topics = draw(st.fixed_dictionaries({name: st.integers(0, 2**64 - 1).map(str) for name, _ in found}))
    return Offsets(
        draw(NAMES),
        {key: state[0] for key, state in found.items()},
        topics,
        {key: f"{state[1]}.{state[2]}" for key, state in found.items()},
        {key: state[3] for key, state in found.items() if state[3]},
    )


@given(many_offsets(), st.randoms())
def test_there_is_one_text_for_each_value(offsets: Offsets, random: Any) -> None:
    """Check the canonical encoding: Spark compares text, so another order would start a new micro-batch."""
    keys = list(offsets.next)
    random.shuffle(keys)
    topics = list(offsets.incarnations)
    random.shuffle(topics)
    shuffled = Offsets(
        offsets.stream,
        {key: offsets.next[key] for key in keys},
        {name: offsets.incarnations[name] for name in topics},
        {key: offsets.generations[key] for key in reversed(keys)},
        {key: offsets.epochs[key] for key in reversed(keys) if key in offsets.epochs},
    )
    assert shuffled.to_text() == offsets.to_text()
    # Round trip through Spark, which uses its own separators.
    reported = json.loads(json.dumps(offsets.to_json()))
    assert Offsets.from_json(offsets.stream, reported) == offsets
    assert Offsets.from_json(offsets.stream, reported).to_text() == offsets.to_text()
    assert json.dumps(Offsets.from_text(offsets.stream, offsets.to_text()).to_json()) == json.dumps(reported)


def test_its_shape() -> None:
    offsets = Offsets("shop", {("b", 10): 5, ("b", 9): 6, ("a", 0): 1}, {"b": "4", "a": "3"}, {
        ("b", 10): "8.0", ("b", 9): "7.1", ("a", 0): "6.0",
    })  # fmt: skip
    assert offsets.to_text() == (
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6.0"}},'
        '"shop/b":{"i":"4","p":{"9":6,"10":5},"g":{"9":"7.1","10":"8.0"}}}}'
    )
    known = replace(offsets, epochs={("b", 10): 3})
    assert known.to_text() == offsets.to_text().replace('"10":"8.0"}', '"10":"8.0"},"e":{"10":3}')
    assert offsets.at(("b", 10)) == 5
    assert offsets.at(("b", 11)) == 0  # a partition that came later


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "{}",
        '{"v":2,"t":{}}',
        '{"v":1,"t":[]}',
        '{"v":1,"t":{"shop/a":5}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1}}}}',
        '{"v":1,"t":{"shop/a":{"i":3,"p":{"0":1},"g":{"0":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"1":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":-1},"g":{"0":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":true},"g":{"0":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":9223372036854775808},"g":{"0":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"00":1},"g":{"00":"6.0"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6"}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6.0"},"e":[]}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6.0"},"e":{"0":0}}}}',
        '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6.0"},"e":{"1":5}}}}',
    ],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(OffsetError):
        Offsets.from_text("shop", text)


def test_offsets_of_another_stream_are_refused() -> None:
    text = '{"v":1,"t":{"shop/a":{"i":"3","p":{"0":1},"g":{"0":"6.0"}}}}'
    with pytest.raises(OffsetError, match="the option stream is store"):
        Offsets.from_text("store", text)
