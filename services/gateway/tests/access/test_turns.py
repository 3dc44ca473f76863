"""The order of turns, and what becomes of those that are cancelled."""

import asyncio

import pytest

from headrace_gateway.access.turns import Crowded, Turns


@pytest.fixture
async def served():
    """Begin waits while one turn is taken; the names of those served are in the order of their turns."""
    turns, order, tasks = Turns(1, newcomers_max=3), [], []
    gate = asyncio.Event()

    async def serve(name, owner, *, is_known):
        async with turns.of(owner, is_known=is_known):
            order.append(name)
            await gate.wait()

    async def begin(name, owner, *, is_known=False):
        tasks.append(asyncio.create_task(serve(name, owner, is_known=is_known)))
        await asyncio.sleep(0)
        return tasks[-1]

    async def end():
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    await begin("first", "x")
    return begin, end


async def test_known_users_first_and_owners_in_turns(served):
    begin, end = served
    await begin("newcomer", "address")
    for number in range(3):
        await begin(f"many {number}", "ann", is_known=True)
    await begin("one", "bob", is_known=True)
    assert await end() == ["first", "many 0", "one", "many 1", "many 2", "newcomer"]


async def test_newcomers_make_room(served):
    begin, end = served
    for number in range(3):
        await begin(f"many {number}", "a")
    refused = await begin("many 3", "a")
    await begin("one", "b")
    assert isinstance(refused.exception(), Crowded)
    assert await end() == ["first", "many 0", "one", "many 1"]


async def test_cancelled_ones_leave_their_places(served):
    begin, end = served
    waiting = [await begin(name, "a") for name in ("one", "two", "three")]
    waiting[1].cancel()
    await asyncio.sleep(0)
    await begin("four", "a")
    assert await end() == ["first", "one", "three", "four"]


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on():
    turns = Turns(1)
    async with turns.of("a", is_known=True):
        waiting = asyncio.create_task(turns.of("b", is_known=True).__aenter__())
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5), turns.of("c", is_known=False):
        pass
