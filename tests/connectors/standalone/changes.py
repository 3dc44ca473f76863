"""Sources of PostgreSQL's changes, opened and polled by themselves."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

from headrace_connectors.contract import Batch
from headrace_connectors.sources.postgres import streaming
from headrace_connectors.sources.postgres.cdc import PostgresCdc
from headrace_connectors.sources.postgres.settings import CdcSettings

MARKER = "public.last"
"""Table whose changes show that all others have arrived."""


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

    # A slow server may take longer than a second to notice that the last connection was closed.
    with mock.patch.object(streaming, "_START_ATTEMPTS", 1200):
        yield source
        for one in opened:
            await one.close()


async def polled(source: PostgresCdc) -> Batch:
    """Poll a source until it has a batch."""
    deadline = time.monotonic() + 60
    while (batch := await source.poll()) is None:
        assert time.monotonic() < deadline, "no change arrived"
    return batch
