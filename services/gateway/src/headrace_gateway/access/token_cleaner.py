"""Removal of expired access tokens."""

from __future__ import annotations

import asyncio
import logging

from headrace_gateway.ports import AccountDirectory, Clock, Proposer, wall_clock_micros
from headrace_proto.metadata.v1 import Command, DeleteExpiredAccessTokens
from headrace_proto.well_known import ROOT_USER_ID

_log = logging.getLogger(__name__)


class TokenCleaner:
    """Proposes the removal only if there are expired tokens, so that the journal does not grow needlessly."""

    def __init__(
        self,
        *,
        proposer: Proposer,
        accounts: AccountDirectory,
        interval_seconds: float,
        clock: Clock = wall_clock_micros,
    ) -> None:
        self._proposer = proposer
        self._accounts = accounts
        self._interval_seconds = interval_seconds
        self._clock = clock

    async def run(self) -> None:
        """Check periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.clean()
            except Exception:  # noqa: BLE001  (see below)
                # Logins refuse expired tokens in any case; the removal is retried with the next interval.
                _log.exception("expired access tokens cannot be removed")

    async def clean(self) -> None:
        """Check once."""
        if self._accounts.has_expired_access_tokens(self._clock()):
            await self._proposer.propose(
                Command(actor_user_id=ROOT_USER_ID, delete_expired_access_tokens=DeleteExpiredAccessTokens())
            )
