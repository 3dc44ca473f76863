"""Certificates of the connections between replicas, which are replaced while these go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn, Protocol

from headrace_shards.background import background

_log = logging.getLogger(__name__)


class Renews(Protocol):
    """The part of `headrace_core.MetadataReplica` that knows the files."""

    def renew_certificates(self) -> bool:
        """Look at the files; whether there are others in them, which connections are made with from then on."""


class PeerCertificates:
    """Has a replica look at its files now and then."""

    def __init__(self, native: Renews) -> None:
        self._native = native
        self._complaint = ""

    async def look(self) -> None:
        """Look now; what comes of it is logged, and what cannot be used is not used."""
        try:
            renewed = await asyncio.to_thread(self._native.renew_certificates)
        except Exception as error:  # noqa: BLE001 - the native module has its own, which nothing here may import
            if str(error) != self._complaint:
                _log.warning("tls: the new certificate is not used between replicas: %s", error)
            self._complaint = str(error)
            return
        if renewed:
            self._complaint = ""
            _log.info("tls: new connections between replicas are made with the certificate that was found")

    @asynccontextmanager
    async def watched(self, interval_seconds: float) -> AsyncIterator[None]:
        """Look now and then, for the length of an ``async with`` block."""
        async with background(self._watch(interval_seconds), "peer-certificates"):
            yield

    async def _watch(self, interval_seconds: float) -> NoReturn:
        while True:
            await asyncio.sleep(interval_seconds)
            await self.look()
