"""Distance of a slot from the end of the log, against a real server."""

from __future__ import annotations

import asyncio

from headrace_connectors.sources.postgres.cdc import CdcSettings, PostgresCdc
from headrace_connectors.sources.postgres.lag import slot_lag


async def test_the_distance_grows_with_the_log_and_ends_with_a_commit(database, database_url):
    """CON-33: bytes of the log after the position that is committed."""
    database.execute("CREATE TABLE a (id int PRIMARY KEY, name text)")
    slot = f"s{database_url.rpartition('/')[2]}"
    assert await slot_lag(database_url, slot) is None
    source = PostgresCdc(
        CdcSettings(url=database_url, slot=slot, tables=["public.a"], poll_interval="1 ms", snapshot="never")
    )
    await source.open(None)
    try:
        before = await source.lag()
        database.execute("INSERT INTO a SELECT n, repeat('x', 100) FROM generate_series(1, 1000) AS n")
        grown = await source.lag()
        assert grown.unit == "bytes"
        assert grown.behind > before.behind + 100_000
        while await source.poll() is None:
            pass
        await source.commit()
        # A report of the replication protocol has no answer.
        async with asyncio.timeout(60):
            while (await source.lag()).behind >= grown.behind - 100_000:
                await asyncio.sleep(0.01)
    finally:
        await source.close()
