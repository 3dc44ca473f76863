"""Durability rules for topics, and rules refused at the start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_gateway.config import TopicConfig
from headrace_gateway.control.topic_durability import TopicDurability, durability_of
from headrace_proto.catalog.v1 import DURABILITY_FSYNC, DURABILITY_MEMORY, DURABILITY_OS, DURABILITY_UNSPECIFIED

RULES = [
    TopicDurability.parse(text) for text in ("orders/draft-?=memory", "orders/*=fsync", "*/[ab]=os", "*/audit=fsync")
]


@pytest.mark.parametrize(
    ("stream", "topic", "durability"),
    [
        ("orders", "draft-1", DURABILITY_MEMORY),
        ("orders", "draft-10", DURABILITY_FSYNC),
        ("orders", "a", DURABILITY_FSYNC),
        ("orders", "a/b", DURABILITY_FSYNC),
        ("Orders", "x", DURABILITY_UNSPECIFIED),
        ("orders/x", "y", DURABILITY_UNSPECIFIED),
        ("logs", "b", DURABILITY_OS),
        ("logs", "c", DURABILITY_UNSPECIFIED),
        ("a/b", "audit", DURABILITY_FSYNC),
    ],
)
def test_the_first_match_decides(stream, topic, durability):
    assert durability_of(RULES, stream, topic) == durability


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders/*", "has no =level"),
        ("orders/*=sync", "'sync' in 'orders/[*]=sync' is not a durability level"),
        ("orders/*=", "is not a durability level"),
        ("orders=fsync", "is not stream/topic"),
        ("/x=fsync", "is not stream/topic"),
        ("orders/ =fsync", "is not stream/topic"),
        ("a/b/c=fsync", "more than one /"),
    ],
)
def test_what_is_no_rule_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        TopicConfig(durability=[text])


def test_spaces_around_the_parts_do_not_count():
    assert str(TopicDurability.parse(" my orders / * = os ")) == "my orders/*=os"
    assert TopicDurability.parse("a/b=c=os").topic == "b=c"


_NAMES = st.text(min_size=1).filter(lambda name: "/" not in name and name == name.strip())


@given(_NAMES, _NAMES, st.sampled_from([DURABILITY_MEMORY, DURABILITY_OS, DURABILITY_FSYNC]))
def test_what_is_printed_reads_back(stream, topic, level):
    rule = TopicDurability(stream, topic, level)
    assert TopicDurability.parse(str(rule)) == rule
