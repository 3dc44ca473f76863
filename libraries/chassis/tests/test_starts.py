"""Length of turns: what arrives goes before what starts."""

from __future__ import annotations

import asyncio

import pytest

from headrace_chassis.starts import STARTS_MAX, Starts

ENDLESS = 3600.0


async def test_no_more_start_while_a_turn_lasts() -> None:
    """However often the event loop goes round."""
    starts = Starts(quiet_seconds=ENDLESS, turn_seconds_max=ENDLESS)
    for _ in range(STARTS_MAX):
        await starts.take("user")
    late = asyncio.ensure_future(starts.take("user"))
    for _ in range(100):
        await asyncio.sleep(0)
        await starts.take(object())
    assert not late.done()
    late.cancel()


@pytest.mark.parametrize(("quiet", "longest"), [(0.002, ENDLESS), (ENDLESS, 0.002)], ids=["quiet", "longest"])
async def test_a_turn_ends(quiet: float, longest: float) -> None:
    """A turn ends when nothing has arrived for a while, and after its maximum, whether or not others wait."""
    starts = Starts(quiet_seconds=quiet, turn_seconds_max=longest)
    async with asyncio.timeout(20):
        await asyncio.gather(*(starts.take("user") for _ in range(5 * STARTS_MAX)))
    for _ in range(3):
        await asyncio.sleep(2 * min(quiet, longest))
        first = asyncio.ensure_future(starts.take("user"))
        await asyncio.sleep(0)
        assert first.done()
