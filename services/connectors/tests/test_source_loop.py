"""The order of poll, delivery, state and commit, and what follows from failures of each kind of source."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    InvalidRecord,
    Opaque,
    Polling,
    Record,
    Source,
    Unavailable,
)
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.runtime.source_loop import NotAbandonable, SourceLoop
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.storing.steps import AtLeastOnce

FAST = {"backoff_min": "1 ms", "backoff_max": "2 ms", "commit_failure_threshold": 3, "commit_stop_grace": "50 ms"}
MODES = {"cdc": Cdc(), "polling": Polling(destructive=False), "opaque": Opaque()}


class Steps(Source):
    """A source whose steps are recorded, and fail as listed: a failure, or a number of failures."""

    def __init__(self, mode, **failures):
        self.steps = []
        self.failures = {name: list(of_step) for name, of_step in failures.items()}
        self._mode = mode
        self.committed = 0
        self.polled = 0
        self.slow_commit = None
        self.progress = asyncio.Event()

    def mode(self):
        return self._mode

    def step(self, name):
        self.steps.append(name)
        self.progress.set()
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    async def open(self, state):
        self.step("open")

    async def poll(self):
        self.step("poll")
        await asyncio.sleep(0)
        self.polled += 1
        return Batch([Record({"n": self.committed})], b"%d" % self.committed)

    async def commit(self):
        self.step("commit")
        if self.slow_commit is not None:
            await self.slow_commit.wait()
        self.committed += 1

    async def close(self):
        self.step("close")


class Cdcs(Steps):
    async def abandon(self):
        self.step("abandon")
        return "0/1"


class Target:
    """Delivery and storage of states: recorded in the source's steps, so that their order shows."""

    def __init__(self, source, **failures):
        self.source = source
        self.failures = {name: list(of_step) for name, of_step in failures.items()}

    async def deliver(self, records):
        self.source.steps.append("deliver")
        if self.failures.get("deliver"):
            raise self.failures["deliver"].pop(0)
        return len(records)

    async def recover(self):
        return None

    async def save(self, state):
        self.source.steps.append("save")
        if self.failures.get("save"):
            raise self.failures["save"].pop(0)


@contextlib.asynccontextmanager
async def running(source, target, **settings):
    status = Status()
    loop = SourceLoop("a", source, DeliverySettings(**{**FAST, **settings}), status)
    task = asyncio.create_task(loop.run(AtLeastOnce(target, target.save, target.recover)))
    try:
        yield loop, status, task
    finally:
        loop.stop()
        await asyncio.wait({task})


async def until(source, condition):
    """Wait until a condition holds, which is looked at after each step of the source."""
    async with asyncio.timeout(30):
        while not condition():
            source.progress.clear()
            await source.progress.wait()


async def test_a_source_that_cannot_be_opened_is_degraded_until_it_is():
    source = Steps(MODES["polling"], open=[Unavailable("no database")] * 4)
    async with running(source, Target(source)) as (_, status, _task):
        status.become(State.STARTING)
        await until(source, lambda: source.committed > 0)
        reached = [(change.state, change.reason) for change in status.history]
    assert reached[-2:] == [(State.DEGRADED, "no database"), (State.RUNNING, None)]
    assert source.steps.count("open") == 5


async def test_steps_are_strictly_in_order():
    source = Steps(MODES["cdc"])
    async with running(source, Target(source)) as (_, status, _task):
        await until(source, lambda: source.committed >= 3)
    rounds = source.steps[1:-1]
    assert source.steps[0] == "open"
    assert source.steps[-1] == "close"
    assert rounds[:12] == ["poll", "deliver", "save", "commit"] * 3
    assert status.batches_count == source.committed


@pytest.mark.parametrize("mode", MODES)
async def test_what_was_not_delivered_is_polled_again(mode):
    source = Steps(MODES[mode])
    target = Target(source, deliver=[Unavailable("no server"), Unavailable("no server")])
    async with running(source, target) as (_, status, _task):
        await until(source, lambda: source.committed >= 1)
    assert source.steps[1:9] == ["poll", "deliver", "poll", "deliver", "poll", "deliver", "save", "commit"]
    assert status.last_error == "no server"


@pytest.mark.parametrize("mode", MODES)
async def test_a_state_that_cannot_be_saved_ends_the_connector(mode):
    source = Steps(MODES[mode])
    async with running(source, Target(source, save=[OSError("disk full")])) as (_, _status, task):
        await asyncio.wait({task})
    assert isinstance(task.exception(), OSError)
    assert "commit" not in source.steps


async def test_a_commit_of_a_log_is_tried_for_ever():
    failures = [RuntimeError("no database")] * 5
    source = Steps(MODES["cdc"], commit=failures)
    async with running(source, Target(source)) as (_, status, _task):
        await until(source, lambda: status.state is State.DEGRADED)
        assert status.consecutive_failures >= 3
        await until(source, lambda: source.committed >= 1)
        await until(source, lambda: status.state is State.RUNNING)
    assert source.steps[1:10] == ["poll", "deliver", "save", *["commit"] * 6]
    states = [change.state for change in status.history]
    assert states[:3] == [State.RUNNING, State.DEGRADED, State.RUNNING]


async def test_after_a_failed_commit_a_table_is_polled_again():
    source = Steps(MODES["polling"], commit=[RuntimeError("no database")])
    async with running(source, Target(source)):
        await until(source, lambda: source.committed >= 1)
    assert source.steps[1:9] == ["poll", "deliver", "save", "commit", "poll", "deliver", "save", "commit"]


async def test_a_failed_commit_without_a_buffer_behind_it_ends_the_connector():
    source = Steps(MODES["opaque"], commit=[RuntimeError("gone")])
    async with running(source, Target(source)) as (_, _status, task):
        await asyncio.wait({task})
    assert str(task.exception()) == "gone"


@pytest.mark.parametrize(("mode", "ends"), [("cdc", False), ("polling", False), ("opaque", True)])
async def test_records_that_may_not_be_dropped_hold_up_sources_that_keep_them(mode, ends):
    source = Steps(MODES[mode])
    target = Target(source, deliver=[InvalidRecord("no JSON")] * 4)
    async with running(source, target) as (_, status, task):
        if ends:
            await asyncio.wait({task})
            assert isinstance(task.exception(), InvalidRecord)
        else:
            await until(source, lambda: status.state is State.DEGRADED)
            await until(source, lambda: source.committed >= 1)


async def test_a_failure_of_the_plugin_ends_the_connector():
    source = Steps(MODES["cdc"], poll=[ConnectorError("the slot is gone")])
    async with running(source, Target(source)) as (_, _status, task):
        await asyncio.wait({task})
    assert str(task.exception()) == "the slot is gone"
    assert source.steps == ["open", "poll", "close"]


async def test_a_start_is_tried_until_the_other_side_answers():
    source = Steps(MODES["cdc"], open=[Unavailable("starting up")] * 2)
    async with running(source, Target(source)):
        await until(source, lambda: source.committed >= 1)
    assert source.steps[:3] == ["open"] * 3


async def test_a_stop_ends_a_pause_at_once():
    source = Steps(MODES["cdc"], commit=[RuntimeError("no database")] * 100)
    async with running(source, Target(source), backoff_min="1 h", backoff_max="1 h") as (loop, _status, task):
        await until(source, lambda: "commit" in source.steps)
        loop.stop()
        await asyncio.wait_for(asyncio.wait({task}), 10)
    assert source.steps[-2:] == ["commit", "close"]


@pytest.mark.parametrize("is_ending", [True, False])
async def test_a_commit_in_progress_gets_its_grace(is_ending):
    source = Steps(MODES["cdc"])
    source.slow_commit = asyncio.Event()
    async with running(source, Target(source)) as (loop, status, task):
        await until(source, lambda: "commit" in source.steps)
        loop.stop()
        if is_ending:
            source.slow_commit.set()
        await asyncio.wait_for(asyncio.wait({task}), 10)
    assert source.committed == int(is_ending)
    assert status.batches_count == int(is_ending)
    assert task.exception() is None


async def test_giving_up_a_batch_ends_the_attempts():
    source = Cdcs(MODES["cdc"], commit=[RuntimeError("no database")] * 10_000)
    async with running(source, Target(source)) as (loop, status, _task):
        await until(source, lambda: status.state is State.DEGRADED)
        polls = source.steps.count("poll")
        assert await loop.abandon() == "0/1"
        assert (status.state, status.last_abandoned) == (State.RUNNING, "0/1")
        assert status.last_abandon_at is not None
        await until(source, lambda: source.steps.count("poll") > polls)


async def test_only_change_data_capture_can_give_up():
    source = Steps(MODES["polling"])
    async with running(source, Target(source)) as (loop, _status, _task):
        with pytest.raises(NotAbandonable):
            await loop.abandon()
