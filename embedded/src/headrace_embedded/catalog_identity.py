"""Identity and version of the catalog that the partitions have followed: another one, or an older copy, is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NoReturn

from headrace_chassis.background import background
from headrace_embedded import data_directory
from headrace_metadata.replica import Replica
from headrace_partition_node.data_directory import HighestVersion, damaged_slots

_INTERVAL_SECONDS: Final = 5.0
"""Interval of records. A copy that is older by less is not noticed."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def checked(replica: Replica, data_path: Path, *, is_durable: bool) -> AsyncIterator[str]:
    """Refuse a catalog other than that of the partitions, or an older one; record its version in a ``with`` block.

    Yields the identity of the catalog.

    Args:
        replica: The recovered replica.
        data_path: The data directory.
        is_durable: False if a loss of power may take back commands of the catalog; nothing is recorded then.

    Raises:
        ForeignDataDirectory: The catalog is another one, or older than the partitions.
        ForeignDirectory: The file with the version is damaged.
        OSError: The file cannot be read or created.
    """
    catalog = await asyncio.to_thread(data_directory.claim, data_path)
    with HighestVersion.opened(data_path) as highest:
        data_directory.check_version(data_path, replica.state.version, highest.value)
        if not is_durable:
            yield catalog
            return
        async with background(_recording(replica, highest), "catalog-version"):
            try:
                yield catalog
            finally:
                await _record(replica, highest)


def damaged_versions(file: Path) -> list[int]:
    """Return the positions of damaged records in a file with the version of the catalog."""
    return damaged_slots(file.read_bytes())


async def _recording(replica: Replica, highest: HighestVersion) -> NoReturn:
    while True:
        await _record(replica, highest)
        await asyncio.sleep(_INTERVAL_SECONDS)


async def _record(replica: Replica, highest: HighestVersion) -> None:
    try:
        await asyncio.to_thread(highest.raise_to, replica.state.version)
    except OSError as error:
        _log.warning("the version of the catalog is not recorded: %s", error)
