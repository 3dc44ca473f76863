import asyncio
import sys
from pathlib import Path

import pytest

# The tests share a world; in this import mode a test directory is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
async def world(tmp_path):
    """A partition node without a cluster, and a connection with it."""
    from partition_world import running

    async with running(tmp_path) as world:
        yield world
        async with asyncio.timeout(30):
            while world.memory.used_bytes or world.calls.count:
                await asyncio.sleep(0.01)
