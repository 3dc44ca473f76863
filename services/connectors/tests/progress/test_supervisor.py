"""Replacing one connector by another."""

from __future__ import annotations

import asyncio

import pytest

from headrace_connectors.pipeline_file.models import ConnectorSettings
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.status import State
from headrace_connectors.runtime.supervisor import StillEnding, Supervisor


class Slow(Connector):
    """A connector that ends when it is let go."""

    kind = "source"

    def __init__(self, key: str = "a") -> None:
        super().__init__(key, "slow", ConnectorSettings(plugin="slow"))
        self.may_end = asyncio.Event()
        self.begun = asyncio.Event()

    @property
    def invalid_count(self) -> int:
        return 0

    async def _serve(self) -> None:
        self.status.become(State.RUNNING)
        self.begun.set()
        await self.may_end.wait()

    def _halt(self) -> bool:
        return True


async def test_one_that_ends_late_is_followed_by_the_last_successor() -> None:
    """CON-31: two never run at the same time, and no change is forgotten."""
    old, between, new, other = Slow(), Slow(), Slow(), Slow("b")
    supervisor = Supervisor([old, other])
    supervisor.start()
    await old.begun.wait()
    for successor in (between, new):
        with pytest.raises(StillEnding, match="a has not ended within"):
            await supervisor.replace("a", successor, 0.01)
    assert supervisor.find("a") is old
    old.may_end.set()
    await new.begun.wait()
    assert supervisor.connectors == (new, other)
    assert not between.begun.is_set()
    assert [one.state for one in new.status.history][:2] == ["starting", "running"]
    assert other.status.state is State.RUNNING
    for one in (new, other):
        one.may_end.set()
    assert await supervisor.stop(10) == []


async def test_one_that_was_stopped_stays_stopped() -> None:
    """CON-31: a change of its configuration does not start it."""
    old, new = Slow(), Slow()
    supervisor = Supervisor([old])
    supervisor.start()
    await old.begun.wait()
    old.may_end.set()
    await old.stop()
    await supervisor.replace("a", new, 10)
    assert supervisor.connectors == (new,)
    assert not new.begun.is_set()
    await supervisor.replace("a", None, 10)
    assert supervisor.connectors == ()
