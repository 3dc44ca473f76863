"""Memory budget of gRPC calls (GW-6, GW-9): never exceeded, and at most half of the rest for one user."""

import asyncio
import random

import pytest

from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.status import Refused
from headrace_proto.errors import Status


async def test_no_user_has_more_than_half():
    pool = Pool(100)
    async with pool.held_by("ann") as first, pool.held_by("ann") as second, pool.held_by("bob") as other:
        await first.grow(30)
        with pytest.raises(Refused) as refused:
            await second.grow(21, timeout_seconds=0.01)
        assert refused.value.status == Status.TOO_MANY_WAITS
        assert refused.value.retry_after_seconds > 0
        await second.grow(20, timeout_seconds=1)
        await other.grow(50, timeout_seconds=1)
        assert pool.used_bytes == 100
    assert pool.used_bytes == 0


async def test_what_is_given_back_is_for_those_who_wait():
    pool = Pool(100)
    async with pool.held_by("ann") as ann, pool.held_by("bob") as bob, pool.held_by("carl") as carl:
        await ann.grow(50)
        await bob.grow(50)
        waiting = asyncio.ensure_future(carl.grow(40))
        await asyncio.sleep(0.01)
        ann.shrink(20)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        bob.shrink(40)
        await asyncio.wait_for(waiting, 2)
        assert pool.used_bytes == 100
    assert pool.used_bytes == 0


async def test_tasks_of_one_call_may_wait_together():
    """Regression: the sum was read before the wait, so that all but one of them was never given back."""
    pool = Pool(100)
    async with pool.held_by("ann") as ann, pool.held_by("bob") as bob, pool.held_by("carl") as carl:
        await ann.grow(50)
        await bob.grow(50)
        waiting = asyncio.gather(carl.grow(10), carl.grow(15))
        await asyncio.sleep(0.01)
        ann.shrink(0)
        await asyncio.wait_for(waiting, 2)
        assert pool.used_bytes == 75
    assert pool.used_bytes == 0


async def test_what_is_larger_than_a_share_counts_as_one():
    """Otherwise the request would wait forever, or would be refused although all memory is free."""
    pool = Pool(100)
    async with pool.held_by("ann") as ann:
        await ann.grow(1000, timeout_seconds=1)
        assert pool.used_bytes == 50
        async with ann.holding(0):
            pass
    assert pool.used_bytes == 0


async def test_in_any_order():
    """Random callers take, hold and cancel: the bound always holds, and in the end nothing is in use."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    pool = Pool(1000)
    held_by = {}
    most = 0

    async def call(user):
        nonlocal most
        size = rng.randrange(1, 400)
        async with pool.held_by(user) as held:
            try:
                await held.grow(size, timeout_seconds=rng.choice([None, 0.001, 0.02]))
            except Refused:
                return
            held_by[user] = held_by.get(user, 0) + size
            most = max(most, sum(held_by.values()))
            assert sum(held_by.values()) <= 1000, seed
            assert held_by[user] <= 500, seed
            await asyncio.sleep(rng.random() * 0.005)
            held_by[user] -= size

    tasks = []
    for _ in range(400):
        tasks.append(asyncio.ensure_future(call(rng.randrange(4))))
        if rng.random() < 0.3:
            await asyncio.sleep(0.001)
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks)
    assert pool.used_bytes == 0, seed
    assert most > 500, seed


async def test_who_is_cancelled_while_he_waits_leaves_nothing_behind():
    pool = Pool(100)
    async with pool.held_by("ann") as ann:
        await ann.grow(50)
        held = pool.held_by("ann")
        tasks = [asyncio.ensure_future(held.grow(10)) for _ in range(3)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        # Its bytes are granted, and it is cancelled before it runs.
        ann.shrink(40)
        tasks[1].cancel()
        await asyncio.wait(tasks, timeout=0.1)
        ann.shrink(0)
        await asyncio.wait_for(tasks[2], 2)
        held.shrink(0)
    assert pool.used_bytes == 0


async def test_the_others_always_find_something_left():
    """Users at their limits together leave something to those who follow."""
    pool = Pool(1024)
    taken = {user: sum(pool.take_now(user, 1) for _ in range(1024)) for user in ("ann", "bob", "carl", "dora")}
    assert taken == {"ann": 512, "bob": 256, "carl": 128, "dora": 64}


async def test_a_user_waits_for_no_other_users_large_request():
    pool = Pool(100)
    async with pool.held_by("ann") as ann, pool.held_by("bob") as bob, pool.held_by("carl") as carl:
        await ann.grow(50)
        large = asyncio.ensure_future(bob.grow(50))
        await asyncio.wait_for(large, 2)
        bob.resize(40)
        waiting = [asyncio.ensure_future(bob.grow(40)), asyncio.ensure_future(bob.grow(1))]
        await asyncio.sleep(0)
        assert carl.grow_now(5)
        assert not any(task.done() for task in waiting), "one user's calls have their turns in order"
        bob.resize(0)
        waiting[0].cancel()
        await asyncio.wait_for(waiting[1], 2)
