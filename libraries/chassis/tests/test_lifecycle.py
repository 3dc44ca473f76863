"""A service lives as long as its essential tasks."""

import asyncio

import pytest

from headrace_chassis.lifecycle import Lifecycle


async def test_states_follow_each_other():
    life = Lifecycle()
    assert life.state == "starting"
    with life.running():
        assert life.state == "running"
    assert life.state == "draining"


async def test_the_failure_of_an_essential_task_ends_the_wait():
    async def failing():
        await asyncio.sleep(0)
        raise RuntimeError("lost")

    life = Lifecycle()
    async with life.essential(failing(), "failing"):
        with pytest.raises(RuntimeError, match="lost"):
            await life.until(asyncio.Event().wait())
        with pytest.raises(RuntimeError, match="lost"):
            life.check()
    life.check()


async def test_a_task_ends_with_its_block():
    life = Lifecycle()
    async with life.essential(asyncio.Event().wait(), "endless") as task:
        happened = asyncio.Event()
        happened.set()
        await life.until(happened.wait())
        assert not task.done()
    assert task.cancelled()
