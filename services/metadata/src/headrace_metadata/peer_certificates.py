"""Renewal of the certificates of connections between replicas, without closing them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn, Protocol

from headrace_chassis.background import background

_log = logging.getLogger(__name__)


class Renews(Protocol):
    """Interface of `headrace_core.MetadataReplica` for renewing certificates."""

    def renew_certificates(self) -> bool:
        """Check the files; return whether they have changed, which applies to new connections."""


class PeerCertificates:
    """Periodic check of a replica's certificate files."""

    def __init__(self, native: Renews) -> None:
        self._native = native
        self._complaint = ""

    async def look(self) -> None:
        """Check now; the result is logged, and unusable files are ignored."""
        try:
            renewed = await asyncio.to_thread(self._native.renew_certificates)
        except Exception as error:  # noqa: BLE001 - the native module has its own, which nothing here may import
            if str(error) != self._complaint:
                _log.warning("tls: new replica certificate rejected, the previous one stays in use: %s", error)
            self._complaint = str(error)
            return
        if renewed:
            self._complaint = ""
            _log.info("tls: replica certificate replaced")

    @asynccontextmanager
    async def watched(self, interval_seconds: float) -> AsyncIterator[None]:
        """Check periodically for the duration of an ``async with`` block."""
        async with background(self._watch(interval_seconds), "peer-certificates"):
            yield

    async def _watch(self, interval_seconds: float) -> NoReturn:
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look()
