"""Sinks that tests open."""

from __future__ import annotations

import pytest


@pytest.fixture
async def opened():
    """Open sinks, and close them at the end."""
    made = []

    async def open_one(sink):
        made.append(sink)
        await sink.open()
        return sink

    yield open_one
    for sink in made:
        await sink.close()
