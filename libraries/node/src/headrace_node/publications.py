"""Reports to the metadata service about publications that partitions have appended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from headrace_proto.metadata.v1 import AppliedPublications, Command, PublicationsApplied
from headrace_proto.well_known import ROOT_USER_ID

_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 5.0
# Maximum number of partitions in one command.
_PARTITIONS_MAX: Final = 1000

_log = logging.getLogger(__name__)

_Place = tuple[int, int, int]


class Publications:
    """Publications that partitions have appended: the metadata service then removes them from its list.

    Each is reported until the service has applied the report. The backlog is bounded by the number of partitions, as a
    later publication of one implies the earlier ones.
    """

    def __init__(self, propose: Callable[[Command], Awaitable[object]]) -> None:
        """Create an empty backlog.

        Args:
            propose: Has a command applied; raises if the outcome is unknown.
        """
        self._propose = propose
        self._waiting: dict[_Place, AppliedPublications] = {}
        self._came = asyncio.Event()

    @property
    def waiting_count(self) -> int:
        """Number of partitions to be reported."""
        return len(self._waiting)

    def applied(self, notice: PublicationsApplied) -> None:
        """Add a notice to the backlog."""
        for done in notice.partitions:
            place = (done.stream_id, done.topic_id, done.partition_id)
            known = self._waiting.get(place)
            if known is None or _progress(done) > _progress(known):
                self._waiting[place] = done
        if self._waiting:
            self._came.set()

    async def run(self) -> NoReturn:
        """Report the backlog continuously, until cancelled."""
        pause_seconds = _RETRY_SECONDS
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                reported = dict(list(self._waiting.items())[:_PARTITIONS_MAX])
                command = PublicationsApplied(partitions=reported.values())
                try:
                    await self._propose(Command(actor_user_id=ROOT_USER_ID, publications_applied=command))
                except Exception as error:  # noqa: BLE001  (whatever it is, what was committed stays on the list)
                    _log.warning("published offsets were not reported to the metadata service, retrying: %s", error)
                    await asyncio.sleep(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)
                    continue
                pause_seconds = _RETRY_SECONDS
                for place, done in reported.items():
                    # A newer publication of the same partition may have been added meanwhile.
                    if self._waiting[place] is done:
                        del self._waiting[place]


def _progress(done: AppliedPublications) -> tuple[int, int]:
    return done.partition_incarnation, done.number
