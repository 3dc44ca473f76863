"""Events of shard threads reach the log."""

import logging

import pytest

from headrace_node import ShardEnded, ShardEvents

ENDED = "a shard thread ended: the ring is gone"


class Source:
    def __init__(self, *batches: list[tuple[str, str]]) -> None:
        self.batches = list(batches)

    def take_events(self) -> list[tuple[str, str]]:
        return self.batches.pop(0) if self.batches else []


def test_every_event_is_a_record_of_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events = [("info", "one"), ("warning", "50 % of two"), ("error", "partition 0/0/1: damaged"), ("loud", "four")]
    assert ShardEvents(Source(events)).log() is None
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "one"),
        ("WARNING", "50 % of two"),
        ("ERROR", "partition 0/0/1: damaged"),
        ("ERROR", "four"),
    ]


def test_several_sources_are_logged_in_turn(caplog: pytest.LogCaptureFixture) -> None:
    assert ShardEvents(Source([("warning", "a")]), Source([("warning", "b"), ("warning", "c")])).log() is None
    assert [record.getMessage() for record in caplog.records] == ["a", "b", "c"]


def test_the_end_of_a_shard_is_reported_and_what_came_with_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    events = ShardEvents(Source([("error", ENDED), ("warning", "another")], []))
    assert events.log() == ENDED
    assert [record.getMessage() for record in caplog.records] == [ENDED, "another"]
    assert events.log() is None


async def test_watching_ends_with_the_shard(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ShardEnded, match="the ring is gone"):
        await ShardEvents(Source([("error", ENDED)])).watch()
    assert ENDED in caplog.text
