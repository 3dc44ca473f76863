"""Connections of a user to `/ws`: a share of all, and a maximum for each."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from headrace_gateway.push.config import PushConfig
from headrace_gateway.push.services import Services


class Silent:
    """Sessions of a node that does not answer."""

    async def open(self, _user_id: int) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(("each_max", "expected"), [(100, [4, 2, 1]), (3, [3, 2, 1])])
async def test_a_user_has_half_of_what_others_leave(each_max: int, expected: list[int]) -> None:
    """Regression: two users with half of all connections each left none to a third."""
    config, nothing = PushConfig(max_connections=8, max_connections_per_user=each_max), cast("Any", None)
    services = Services(config, sessions=cast("Any", Silent()), identities=nothing, metrics=nothing, clock=lambda: 0)
    found = [sum(services.joined(user) is not None for _ in range(9)) for user in (1, 2, 3)]
    for user, count in zip((1, 2, 3), found, strict=True):
        for _ in range(count):
            await services.left(user)
    assert found == expected
    assert services.joined(3) is not None
    await services.left(3)
