"""Topics of connectors by their definitions: what is not plain needs the rights on everything."""

from __future__ import annotations

import pytest

from headrace_gateway.connectors.reach import Reach, reach_of

T = {"stream": "s", "topic": "t"}


@pytest.mark.parametrize(
    ("kind", "definition", "expected"),
    [
        ("sink", T, Reach(reads=[("s", "t")])),
        ("sink", {"topics": [T, {"stream": "s", "topic": "u"}]}, Reach(reads=[("s", "t"), ("s", "u")])),
        ("sink", T | {"topics": [T]}, Reach(reads=[("s", "t"), ("s", "t")])),
        ("sink", T | {"dead_letter_topic": "d"}, Reach(reads=[("s", "t")], writes=[("s", "d")])),
        ("sink", T | {"dead_letter_topic": "${D}"}, Reach(reads=[("s", "t")], writes_any=True)),
        ("sink", {"stream": "s${X}", "topic": "t"}, Reach(reads_any=True)),
        ("sink", {"stream": ["s"], "topic": "t"}, Reach(reads_any=True)),
        ("sink", {"topics": "all"}, Reach(reads_any=True)),
        ("sink", {"topics": ["s/t"]}, Reach(reads_any=True)),
        ("source", T, Reach(writes=[("s", "t")])),
        ("source", T | {"routing": {}}, Reach(writes=[("s", "t")], writes_any=True)),
        ("source", {"routing": {"topic_column": "t"}}, Reach(writes_any=True)),
        ("source", T | {"transforms": {"split": {}, "x": {"plugin": "python"}}}, Reach(writes=[("s", "t")])),
        ("source", T | {"transforms": {"split": {"plugin": "route"}}}, Reach(writes=[("s", "t")], writes_any=True)),
        ("source", T | {"transforms": {"of_others": {}}}, Reach(writes=[("s", "t")], writes_any=True)),
        ("source", T | {"transforms": ["split"]}, Reach(writes=[("s", "t")], writes_any=True)),
        ("source", {"stream": "${S}", "topic": "t"}, Reach(writes_any=True)),
        ("of another release", T, Reach(writes=[("s", "t")])),
    ],
)
def test_a_definition_reaches_its_topics(kind, definition, expected):
    assert reach_of(kind, definition) == expected
