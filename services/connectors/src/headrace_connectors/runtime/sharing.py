"""The connectors of this process as a part of a group: those whose lease it has run, and the others wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from headrace_connectors.contract import Unavailable
from headrace_connectors.leases.member import GroupMember
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.status import State
from headrace_connectors.runtime.supervisor import StillEnding, Supervisor

_log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 0.2


class Sharing:
    """Claims leases, starts connectors when it has theirs, and ends them before others can have it.

    Changes of their configurations come through the same log as the leases, so a connector is never started here with
    one that is older than its lease.

    Args:
        member: The own process.
        supervisor: Connectors of this process.
        outdated: Return the connectors whose configuration has changed.
        successor: Return a connector with its newest configuration; None: it is deleted.
    """

    def __init__(
        self,
        member: GroupMember,
        supervisor: Supervisor,
        outdated: Callable[[], Sequence[str]] = lambda: (),
        successor: Callable[[str], Connector | None] = lambda _key: None,
    ) -> None:
        self._member = member
        self._supervisor = supervisor
        self._outdated = outdated
        self._successor = successor
        self._connectors: dict[str, Connector] = {}
        """Connectors that this process can run."""
        self._started: dict[str, int] = {}
        """Fence under which a connector was started. One that has ended, or was stopped, is not started again."""
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        for connector in supervisor.connectors:
            self._adopt(connector)
        member.offer(list(self._connectors))

    def _adopt(self, connector: Connector) -> None:
        if not connector.is_usable:
            # Shows why it cannot run here; processes that can run it do.
            connector.start()
            return
        connector.lease = self._member
        if connector.is_enabled:
            self._connectors[connector.key] = connector

    async def working(self) -> NoReturn:
        """Work until cancelled."""
        while True:
            self.follow()
            try:
                await self._claim()
            except Unavailable as error:
                _log.warning("leases cannot be changed now: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            self.follow()
            await self._member.changed()

    def follow(self) -> None:
        """Start and end connectors as configurations and leases say."""
        for key in self._outdated():
            if key not in self._ending and not self._is_closed:
                self._change(key)
        for key, connector in self._connectors.items():
            fence = self._member.fence(key)
            if key in self._ending or self._is_closed:
                continue
            if key in self._started and self._started[key] != fence:
                self._end(connector, is_release=False)
            elif fence is not None and key not in self._started:
                self._started[key] = fence
                connector.start()
            elif fence is None:
                connector.stand_by()

    def _change(self, key: str) -> None:
        """Put the newest configuration of a connector in its place; one that runs ends first."""
        found = self._supervisor.find(key)
        if found is not None and found.is_running:
            self._end(found, is_release=False)
            return
        was_stopped = found is not None and found.status.state is State.STOPPED and key in self._started
        self._connectors.pop(key, None)
        successor = self._successor(key)
        self._supervisor.put(key, successor)
        if successor is not None:
            self._adopt(successor)
        if not was_stopped or key not in self._connectors:
            self._started.pop(key, None)
        self._member.offer(list(self._connectors))

    async def applied(self, key: str, seconds: float) -> None:
        """Put the newest configuration of a connector into effect, if it runs here; others follow by themselves.

        Args:
            key: Name of the connector.
            seconds: Time for the stop.

        Raises:
            StillEnding: It has not ended in that time. Its successor follows when it has.
        """
        self.follow()
        ending = self._ending.get(key)
        if ending is None:
            return
        await asyncio.wait({ending}, timeout=seconds)
        if not ending.done():
            raise StillEnding(
                f"{key} has not ended within {seconds:g} s: its new configuration is stored, and takes effect as soon "
                "as it has"
            )

    async def close(self, seconds: float) -> list[str]:
        """End all connectors; `working` has been cancelled.

        Args:
            seconds: Time for it.

        Returns:
            Names of those that have not ended in that time.
        """
        self._is_closed = True
        for key, connector in self._connectors.items():
            if key in self._started and key not in self._ending:
                self._end(connector, is_release=True)
        if not self._ending:
            return []
        tasks = {task: key for key, task in self._ending.items()}
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            self._connectors[tasks[task]].cut()
        return sorted(tasks[task] for task in late)

    async def _claim(self) -> None:
        if self._member.is_offer_new:
            await self._member.renew()
        for key in self._member.held:
            # It was deleted or disabled, or cannot run here any more; or an earlier attempt has failed.
            if key not in self._ending and (key not in self._connectors or self._member.is_given_up(key)):
                await self._member.release(key)
        await self._member.remove_silent()
        wanted = self._member.wanted()
        for key in wanted.claims:
            # Connectors that still run under a lost lease end first, and changes come before claims.
            connector = self._connectors.get(key)
            if connector is not None and key not in self._ending and not connector.is_running:
                await self._member.claim(key)
                self.follow()
        for key in wanted.releases:
            if key not in self._ending and key in self._connectors:
                self._end(self._connectors[key], is_release=True)
        await self._member.shorten()

    def _end(self, connector: Connector, *, is_release: bool) -> None:
        task = asyncio.create_task(self._ended(connector, is_release=is_release), name=f"end-{connector.key}")
        self._ending[connector.key] = task

    async def _ended(self, connector: Connector, *, is_release: bool) -> None:
        stopping = asyncio.create_task(connector.stop())
        try:
            # While the leases are renewed, a commit in progress has its grace.
            while not stopping.done() and self._member.may_finish(connector.key):
                await asyncio.wait({stopping}, timeout=min(_RETRY_SECONDS, self._member.seconds_to_end))
            if not stopping.done():
                _log.warning("%s is cut short: its lease is over", connector.key)
                connector.cut()
            await asyncio.wait({stopping})
            is_held = is_release
            while is_held:
                is_held = not await self._released(connector.key)
        finally:
            self._started.pop(connector.key, None)
            del self._ending[connector.key]
        self.follow()

    async def _released(self, key: str) -> bool:
        try:
            await self._member.release(key)
        except Unavailable as error:
            _log.warning("%s cannot be given up yet: %s", key, error)
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        return True
