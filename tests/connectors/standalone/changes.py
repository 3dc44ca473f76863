"""Sources of PostgreSQL's changes, opened and polled by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from headrace_connectors.contract import Batch
from headrace_connectors.sources.postgres.cdc import PostgresCdc
from headrace_connectors.sources.postgres.settings import CdcSettings


@asynccontextmanager
async def cdc_sources(database_url: str, **usual: Any) -> AsyncIterator[Callable[..., Awaitable[PostgresCdc]]]:
    """Open any number of sources, without a snapshot, on one slot; each is closed at the end.

    Args:
        database_url: Address of the database, whose name becomes that of the slot.
        usual: Settings of all of them.
    """
    opened: list[PostgresCdc] = []

    async def source(state: bytes | None = None, **settings: Any) -> PostgresCdc:
        slot = f"s{database_url.rpartition('/')[2]}"
        given = {"url": database_url, "slot": slot, "snapshot": "never", **usual, **settings}
        one = PostgresCdc(CdcSettings.model_validate(given))
        opened.append(one)
        await one.open(state)
        return one

    yield source
    for one in opened:
        await one.close()


async def polled(source: PostgresCdc) -> Batch:
    """Poll a source until it has a batch."""
    for _ in range(100):
        batch = await source.poll()
        if batch is not None:
            return batch
    raise AssertionError("no change arrived")
