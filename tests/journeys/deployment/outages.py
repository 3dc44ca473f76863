"""Kills in the middle of the work, and clients that go on afterwards."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from apache_iggy import IggyClient

from tests.server_process import ServerProcess

Result = TypeVar("Result")

_LONGEST_DELAY_SECONDS = 0.02


class Interrupted(Exception):
    """The server was killed before it answered. It is up again and the link is connected."""


class Outages:
    """Kills the server at planned points of the work and restarts it on the same directory and port."""

    def __init__(self, server: ServerProcess, kills: int, seed: int, work: int) -> None:
        """Plan the kills.

        Args:
            server: The running server.
            kills: Number of kills.
            seed: Seed of the times of the kills.
            work: Total number of messages to send and read; half of the kills come in its first third.
        """
        self._server = server
        self._random = random.Random(seed)
        early = [self._random.randrange(work // 20, work // 3) for _ in range((kills + 1) // 2)]
        late = [self._random.randrange(work // 3, work * 19 // 20) for _ in range(kills // 2)]
        self._due = sorted(early + late)
        self._done = 0
        self._outage: asyncio.Task[None] | None = None
        self.kills_count = 0
        self.broken = asyncio.get_running_loop().create_future()
        """Set by the next kill."""

    def progressed(self, messages: int) -> None:
        """Report progress, which may trigger a kill."""
        self._done += messages
        if self._due and self._done >= self._due[0] and self._outage is None:
            self._due.pop(0)
            self._outage = asyncio.create_task(self._kill_and_restart())

    @property
    def is_under_way(self) -> bool:
        """Return whether the server is about to be killed or not up again yet."""
        return self._outage is not None

    async def over(self) -> None:
        """Wait until the server is up."""
        if self._outage is not None:
            await asyncio.shield(self._outage)

    def _kill_after(self, seconds: float) -> None:
        time.sleep(seconds)
        self._server.kill()

    async def _kill_and_restart(self) -> None:
        # From another thread, and not right after an answer: somewhere within the next requests.
        await asyncio.to_thread(self._kill_after, self._random.uniform(0, _LONGEST_DELAY_SECONDS))
        self.kills_count += 1
        self.broken.set_result(None)
        await asyncio.to_thread(self._server.start)
        self.broken = asyncio.get_running_loop().create_future()
        self._outage = None


class Link:
    """An official client, and another one after each kill.

    Clients log in with a request of their own: one that logs in by itself would also repeat a request by itself
    after it has reconnected, so that the same batch may be stored twice.
    """

    def __init__(self, dial: Callable[[], IggyClient], username: str, password: str, outages: Outages | None) -> None:
        self._dial = dial
        self._credentials = (username, password)
        self._outages = outages
        self._kills_seen = 0
        self._client: IggyClient | None = None

    async def connect(self) -> None:
        """Connect and log in, as often as it takes."""
        while True:
            await self.up()
            if self._outages is not None:
                self._kills_seen = self._outages.kills_count
            self._client = self._dial()
            try:
                await self._guarded(self._log_in)
            except Interrupted:
                continue
            return

    async def up(self) -> None:
        """Wait until the server is up."""
        if self._outages is not None:
            await self._outages.over()

    async def call(self, request: Callable[[IggyClient], Awaitable[Result]]) -> Result:
        """Make a request.

        Raises:
            Interrupted: It was not answered: it may have been executed or not.
            RuntimeError: The server, or the client, refused it.
        """
        if self._client is None or (self._outages is not None and self._kills_seen != self._outages.kills_count):
            await self.connect()
        try:
            return await self._guarded(request)
        except Interrupted:
            await self.connect()
            raise

    async def _log_in(self, client: IggyClient) -> None:
        await client.connect()
        await client.login_user(*self._credentials)

    async def _guarded(self, request: Callable[[IggyClient], Awaitable[Result]]) -> Result:
        """The answer, or `Interrupted` as soon as the server is killed: the client itself would wait for seconds."""
        assert self._client is not None, "connected"
        if self._outages is None:
            return await request(self._client)
        broken = self._outages.broken
        answer = asyncio.ensure_future(request(self._client))
        await asyncio.wait({answer, broken}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() and answer.exception() is None:
            return answer.result()
        if not answer.done():
            answer.cancel()
        elif not broken.done():
            # The client may notice a kill before `Outages` announces it, depending on the load of the machine. A broken
            # connection without a kill under way is a failure.
            if self._outages.is_under_way:
                await asyncio.wait({broken}, timeout=60.0)
            if not broken.done():
                return answer.result()
        raise Interrupted
