"""Sources that break one rule each: the rule is the docstring."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

from headrace_connectors.contract import Batch, Opaque, Polling, Record, decode_state
from tests.connectors.conformance.good import GoodSettings, GoodSource


class Modeless(GoodSource):
    """mode_is_known"""

    def mode(self) -> Any:
        return "polling"


class Fickle(GoodSource):
    """mode_is_known"""

    def mode(self) -> Any:
        return Polling(destructive=True) if self._last < 0 and not hasattr(self, "is_open") else Opaque()

    async def open(self, state: bytes | None) -> None:
        self.is_open = True
        await super().open(state)


class SameIds(GoodSource):
    """records_are_distinct"""

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        return batch and batch._replace(records=[Record(record.payload, id=7) for record in batch.records])


class HugeIds(GoodSource):
    """records_are_distinct"""

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        return batch and batch._replace(records=[Record(one.payload, id=2**128 + one.id) for one in batch.records])


class Forgetful(GoodSource):
    """uncommitted_records_come_again"""

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        self._last = self._polled
        return batch


class RandomIds(GoodSource):
    """uncommitted_records_come_again"""

    numbers = itertools.count(1000)

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        return batch and batch._replace(records=[Record(one.payload, id=next(self.numbers)) for one in batch.records])


class Skipping(GoodSource):
    """restart_continues_after_the_last_commit"""

    async def open(self, state: bytes | None) -> None:
        await super().open(state)
        if state is not None:
            self._last += 1


class StartingOver(GoodSource):
    """restart_continues_after_the_last_commit"""

    def remove(self) -> None:
        """Keep everything."""

    async def open(self, state: bytes | None) -> None:
        self._last = -1


class CommitMissed(GoodSource):
    """missed_commit_is_made_up_for"""

    async def open(self, state: bytes | None) -> None:
        self._first = -1 if state is None else decode_state(state, 1, int)
        self._last = self._first

    def remove(self) -> None:
        self._rows[:] = [row for row in self._rows if row <= self._first or row > self._last]


class EagerPoll(GoodSource):
    """nothing_is_destroyed_before_the_commit"""

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        self._rows[:] = [row for row in self._rows if row > self._polled]
        return batch


class EagerClose(GoodSource):
    """nothing_is_destroyed_before_the_commit"""

    async def close(self) -> None:
        self._last = self._polled
        self.remove()


class EagerTrial(GoodSource):
    """nothing_is_destroyed_before_the_commit"""

    async def open_read_only(self, state: bytes | None) -> None:
        self._rows[:] = self._rows[1:]


class CommitsOnce(GoodSource):
    """commit_is_repeatable"""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.pending = False

    async def poll(self) -> Batch | None:
        self.pending = True
        return await super().poll()

    async def commit(self) -> None:
        if not self.pending:
            raise RuntimeError("there is nothing to commit")
        self.pending = False
        await super().commit()


class AnyVersion(GoodSource):
    """state_of_another_version_is_refused"""

    async def open(self, state: bytes | None) -> None:
        if state is not None and b'"version":2' in state:
            state = None
        await super().open(state)


class PlainState(GoodSource):
    """state_of_another_version_is_refused"""

    async def open(self, state: bytes | None) -> None:
        self._last = -1 if state is None else int(state)

    async def poll(self) -> Batch | None:
        batch = await super().poll()
        return batch and batch._replace(state=b"%d" % self._polled)


class DamageIsIgnored(GoodSource):
    """state_of_another_version_is_refused"""

    async def open(self, state: bytes | None) -> None:
        await super().open(state if state is not None and state.endswith(b"}") else None)


class ClosesOnce(GoodSource):
    """close_is_repeatable"""

    async def open(self, state: bytes | None) -> None:
        await super().open(state)
        self.handle = object()

    async def close(self) -> None:
        del self.handle


class LosesAtCancellation(GoodSource):
    """cancelled_poll_loses_nothing"""

    async def poll(self) -> Batch | None:
        found = self._rows[:2]
        del self._rows[:2]
        await asyncio.sleep(0)
        self._polled = found[-1] if found else self._polled
        return Batch([Record({"id": row}, id=row + 1) for row in found]) if found else None


class IgnoresCancellation(GoodSource):
    """cancelled_poll_loses_nothing"""

    async def poll(self) -> Batch | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return await super().poll()


class BreaksAtCancelledClose(GoodSource):
    """cancelled_close_can_be_repeated"""

    is_closing = False

    async def close(self) -> None:
        if self.is_closing:
            raise RuntimeError("it is being closed")
        self.is_closing = True
        await asyncio.sleep(0)
        self.is_closing = False


# ---- settings


class Undescribed(GoodSource):
    """settings_are_described"""

    class settings_type(GoodSettings):  # noqa: N801 - the name is the contract's
        size: int = 1


class BadDefault(GoodSource):
    """defaults_are_valid"""

    class settings_type(GoodSettings):  # noqa: N801
        size: int = "many"  # type: ignore[assignment]
        """A size."""


class TakesUnknown(GoodSource):
    """unknown_settings_are_refused"""

    class settings_type(GoodSettings, extra="ignore"):  # noqa: N801
        size: int = 1
        """A size."""


class PlainPassword(GoodSource):
    """secrets_are_hidden"""

    class settings_type(GoodSettings):  # noqa: N801
        api_token: str = ""
        """A token."""


class PrintsPassword(GoodSource):
    """secrets_are_hidden"""

    def __repr__(self) -> str:
        return f"<source with {self._settings.password.reveal()}>"


PLANTED: Sequence[type[GoodSource]] = [kind for kind in GoodSource.__subclasses__() if kind.__module__ == __name__]
